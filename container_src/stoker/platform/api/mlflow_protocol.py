"""MLflow's REST on the wire: JSON, errors by name, and clients that sign or give a password."""

from __future__ import annotations

import base64
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote

from stoker.platform.api.http_message import read_json
from stoker.platform.model.faults import ApiFault
from stoker.platform.model.root import Credentials
from stoker.platform.model.signature import Message, SignatureRefused

_ROOT = re.compile(r"^(/ajax-api|/api)/[23]\.0/mlflow/")
_MODEL = re.compile(r"^logged-models/(?P<model_id>m-[0-9a-f]+)(?:/tags/(?P<key>[^/]+)|(?=/|$))")
_ROOTS = ("/api/2.0/mlflow/", "/api/3.0/mlflow/", "/ajax-api/2.0/mlflow/")
_NOT_FOUND = 404
# The kinds of the parameters that operations read; a name means the same in each of them.
_OBJECTS = {"datasets", "metrics", "models", "params", "tags"}
_LISTS = {"experiment_ids", "order_by", "stages"}
_NUMBERS = {"start_time", "end_time", "max_results"}
_TEXTS = {
    *("artifact_location", "experiment_id", "experiment_name", "filter", "key", "metric_key"),
    *("name", "new_name", "page_token", "run_id", "run_name", "run_uuid", "run_view_type"),
    *("alias", "description", "source", "stage", "status", "version", "view_type"),
}
# Beyond it a client that reads numbers as floats would see another one.
_MOST_NUMBER = 2**53
_NUMBER = re.compile("-?[0-9]{1,18}")


def is_mlflow(message: Message) -> bool:
    """Whether a request is for the MLflow face, unless it is signed for S3."""
    return message.path.startswith(_ROOTS)


def require_password(message: Message, credentials: Credentials) -> None:
    """Check a request that is not signed: the platform's keys as user and password.

    Raises:
        SignatureRefused: they are missing or wrong.
    """
    kind, _, token = message.headers.get("authorization", "").partition(" ")
    expected = f"{credentials.access_key}:{credentials.secret_key}".encode()
    try:
        given = base64.b64decode(token, validate=True) if kind.lower() == "basic" else b""
    except ValueError:
        given = b""
    if not hmac.compare_digest(given, expected):
        raise SignatureRefused(
            "missing",
            "MLflow requests need the platform's keys: set MLFLOW_TRACKING_USERNAME and "
            'MLFLOW_TRACKING_PASSWORD, as `eval "$(stoker local env)"` does.',
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class MlflowProtocol:
    """Method and path name the operation; parameters are in the body, or the query of a GET."""

    content_type: str = "application/json"

    @property
    def signature_codes(self) -> Mapping[str, str]:
        """All alike for MLflow."""
        return dict.fromkeys(
            ("missing", "malformed", "unknown_key", "mismatch", "expired"), "UNAUTHENTICATED"
        )

    def read_operation(self, service: str, message: Message, body: bytes) -> str:
        """`POST runs/create`."""
        path = _ROOT.sub("", message.path)
        return f"{message.method} {_MODEL.sub(_name_place, path)}"

    def read_params(
        self, service: str, operation: str, message: Message, body: bytes
    ) -> dict[str, Any]:
        """From JSON or the query."""
        model = _MODEL.search(_ROOT.sub("", message.path))
        places = model.groupdict() if model else {}
        named = {name: unquote(text) for name, text in places.items() if text}
        if message.method == "GET":
            # Not split_query: these clients send a space as a plus sign.
            query = parse_qs(message.query, keep_blank_values=True)
            given = {key: found if key in _LISTS else found[-1] for key, found in query.items()}
            return {**_check_kinds(given), **named}
        try:
            params = read_json(body)
        except ValueError as error:
            raise ApiFault("BAD_REQUEST", f"The body is not JSON: {error}") from error
        if not isinstance(params, dict):
            raise ApiFault("BAD_REQUEST", "The body must be a JSON object.")
        given = {key: value for key, value in params.items() if value is not None}
        return {**_check_kinds(given), **named}

    def missing(self, service: str, operation: str, known: str) -> ApiFault:
        """MLflow's own clients treat this code as an older server."""
        return ApiFault(
            "ENDPOINT_NOT_FOUND",
            f"{operation} is not emulated by the local platform. It has: {known}.",
            status=_NOT_FOUND,
        )

    def render(self, operation: str, answer: Mapping[str, Any], request_id: str) -> bytes:
        """JSON."""
        return json.dumps(answer).encode()

    def render_fault(self, fault: ApiFault, request_id: str) -> bytes:
        """JSON; faults that are not of MLflow's kind have their own code."""
        return json.dumps({"error_code": fault.code, "message": fault.message}).encode()


def _name_place(found: re.Match[str]) -> str:
    return "logged-models/{model_id}" + ("/tags/{key}" if found["key"] else "")


def _check_kinds(params: dict[str, Any]) -> dict[str, Any]:
    """
    Raises:
        ApiFault: a parameter is of another kind than its name says.
    """
    for name, value in params.items():
        if name in _OBJECTS:
            _require(name, value, "a list of objects", _is_list_of(value, dict))
        elif name in _LISTS:
            kinds = (str, dict) if name == "order_by" else str  # objects for logged models
            _require(name, value, "a list of texts", _is_list_of(value, kinds))
        elif name in _NUMBERS:
            # 64-bit numbers may be texts in the JSON of protobuf.
            _require(name, value, "a whole number", bool(_NUMBER.fullmatch(str(value))))
            _require(name, value, "smaller", abs(int(value)) < _MOST_NUMBER)
            _require(name, value, "positive", name != "max_results" or int(value) > 0)
        elif name in _TEXTS:
            _require(name, value, "a text", isinstance(value, str))
    return params


def _is_list_of(value: object, kinds: type | tuple[type, ...]) -> bool:
    return isinstance(value, list) and all(isinstance(each, kinds) for each in value)


def _require(name: str, value: object, expected: str, holds: bool) -> None:
    if not holds:
        text = f"Invalid value {str(value)[:200]!r} for parameter '{name}': it must be {expected}."
        raise ApiFault("INVALID_PARAMETER_VALUE", text)

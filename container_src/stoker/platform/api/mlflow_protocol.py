"""MLflow's REST on the wire: JSON, errors by name, and clients that sign or give a password."""

from __future__ import annotations

import base64
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stoker.platform.model.faults import ApiFault
from stoker.platform.model.root import Credentials
from stoker.platform.model.signature import Message, SignatureRefused, split_query

_ROOT = re.compile(r"^(/ajax-api|/api)/[23]\.0/mlflow/")
_MODEL = re.compile(r"^logged-models/(m-[0-9a-f]+)(?=/|$)")
_MODEL_PLACE = "logged-models/{model_id}"
_ROOTS = ("/api/2.0/mlflow/", "/api/3.0/mlflow/", "/ajax-api/2.0/mlflow/")
_NOT_FOUND = 404


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
            "The MLflow face needs the platform's keys: set MLFLOW_TRACKING_USERNAME and "
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
        return f"{message.method} {_MODEL.sub(_MODEL_PLACE, path)}"

    def read_params(
        self, service: str, operation: str, message: Message, body: bytes
    ) -> dict[str, Any]:
        """From JSON or the query."""
        model = _MODEL.search(_ROOT.sub("", message.path))
        named = {"model_id": model[1]} if model else {}
        if message.method == "GET":
            return {**dict(split_query(message.query)), **named}
        try:
            params = json.loads(body or b"{}")
        except (ValueError, RecursionError) as error:
            raise ApiFault("BAD_REQUEST", f"The body is not JSON: {error}") from error
        if not isinstance(params, dict):
            raise ApiFault("BAD_REQUEST", "The body must be a JSON object.")
        return {**{key: value for key, value in params.items() if value is not None}, **named}

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

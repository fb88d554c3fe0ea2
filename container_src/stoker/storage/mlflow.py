"""An MLflow tracking server over plain REST: no mlflow is needed in the image."""

from __future__ import annotations

import base64
import http.client
import json
import math
import re
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode, urlsplit

URI_VARIABLE = "MLFLOW_TRACKING_URI"
RUN_VARIABLE = "MLFLOW_RUN_ID"
MOST_METRICS = 1000
"""In one request, as every server takes them."""

MOST_NAME = 250
"""Characters in the name of a parameter, metric or tag."""

_ROOT = "/api/2.0/mlflow"
_CONNECT_SECONDS = 10
_NOT_IN_NAMES = re.compile(r"[^/\w.\- :]")
# Timeout, too early, too many requests: the same request may succeed later.
_RETRIED = (408, 425, 429)
# Address and signing name of SageMaker's two kinds of MLflow, by the resource of the ARN.
_ENDPOINTS = {
    "mlflow-tracking-server": ("https://{region}.experiments.sagemaker.aws", "sagemaker-mlflow"),
    "mlflow-app": ("https://mlflow.sagemaker.{region}.app.aws", "sagemaker"),
}
_ARN_HEADERS = {
    "mlflow-tracking-server": "x-mlflow-sm-tracking-server-arn",
    "mlflow-app": "x-sm-mlflow-app-arn",
}


class TrackingRefused(Exception):
    """The server has answered, and would answer the same again."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text}"[:500])
        self.code = code


class TrackingServer:
    """One server; not for several threads at once."""

    def __init__(self, uri: str, environ: Mapping[str, str]) -> None:
        """
        Args:
            uri: `http(s)://…`, or the ARN of SageMaker's MLflow.
            environ: has the login: MLFLOW_TRACKING_USERNAME and _PASSWORD, or _TOKEN.

        Raises:
            ValueError: no such address can be reached by REST.
        """
        self._headers = {"Content-Type": "application/json"}
        self._signed: tuple[str, str] | None = None
        if uri.startswith("arn:"):
            uri = self._read_arn(uri, environ)
        else:
            self._headers |= _make_login(environ)
        parts = urlsplit(uri)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(
                f"{URI_VARIABLE} is {uri!r:.200}, but http(s)://… or an ARN is needed"
            )
        self._base = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        self._path = parts.path.rstrip("/")
        self._place = (parts.hostname, parts.port)
        self._context = _make_context(environ) if parts.scheme == "https" else None
        self._connection: http.client.HTTPConnection | None = None

    def call(
        self, operation: str, body: Mapping[str, Any], *, method: str = "POST"
    ) -> dict[str, Any]:
        """The answer to one request.

        Raises:
            TrackingRefused: another try would not help.
            OSError: the server cannot be reached, or is not able to answer now.
        """
        path = f"{self._path}{_ROOT}/{operation}"
        content = b""
        if method == "GET":
            path = f"{path}?{urlencode(body)}"
        else:
            content = json.dumps(body).encode()
        try:
            status, answer = self._send(method, path, content)
        except http.client.HTTPException as error:
            self.close()
            raise OSError(f"{type(error).__name__}: {error}") from None
        except OSError:
            self.close()
            raise
        if status >= http.client.INTERNAL_SERVER_ERROR or status in _RETRIED:
            raise OSError(f"it answers with {status}: {answer[:200]!r}")
        return _read_answer(status, answer)

    def close(self) -> None:
        """The next request connects again; also in a forked child."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _send(self, method: str, path: str, content: bytes) -> tuple[int, bytes]:
        headers = dict(self._headers)
        if self._signed is not None:
            # boto3 costs a third of a second, and only an ARN needs it.
            from stoker.storage.aws import sign

            service, region = self._signed
            signed = {**headers, "Host": urlsplit(self._base).netloc}
            headers = sign(
                method, self._base + path, content, signed, service=service, region=region
            )
        is_kept = self._connection is not None
        connection = self._connection or self._connect()
        try:
            connection.request(method, path, content, headers)
            response = connection.getresponse()
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            if not is_kept:
                raise
            self.close()  # it was kept open for too long
            return self._send(method, path, content)
        return response.status, response.read()

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._place
        if self._context is not None:
            self._connection = http.client.HTTPSConnection(
                host, port, timeout=_CONNECT_SECONDS, context=self._context
            )
        else:
            self._connection = http.client.HTTPConnection(host, port, timeout=_CONNECT_SECONDS)
        return self._connection

    def _read_arn(self, arn: str, environ: Mapping[str, str]) -> str:
        fields = arn.split(":", 5)
        kind = fields[-1].partition("/")[0]
        if len(fields) < 6 or kind not in _ENDPOINTS:
            raise ValueError(
                f"{URI_VARIABLE} is {arn!r:.200}, but the ARN of an MLflow server is needed"
            )
        endpoint, service = _ENDPOINTS[kind]
        self._signed = (service, fields[3])
        self._headers[_ARN_HEADERS[kind]] = arn
        own = environ.get("SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT")
        return own or endpoint.format(region=fields[3])


def find_run(
    server: TrackingServer, *, experiment: str, name: str, job: str, params: Mapping[str, str]
) -> str:
    """The id of a job's run: the one of its earlier attempt, or a new one.

    Raises:
        TrackingRefused: the server does not take it.
        OSError: it cannot be reached.
    """
    id_ = find_experiment(server, experiment) if experiment else "0"
    if job:
        # The filter quotes the text: a quote in it would end it early.
        text = job.replace("'", "")
        asked = {"experiment_ids": [id_], "filter": f"tags.`stoker.job` = '{text}'"}
        if found := server.call("runs/search", {**asked, "max_results": 1}).get("runs"):
            run_id = str(found[0]["info"]["run_id"])
            server.call("runs/update", {"run_id": run_id, "status": "RUNNING"})
            return run_id
    tags = [{"key": "stoker.job", "value": job}] if job else []
    new = {"experiment_id": id_, "run_name": name, "start_time": _now_ms(), "tags": tags}
    run_id = str(server.call("runs/create", new)["run"]["info"]["run_id"])
    # MLflow's limits for a parameter, and for a batch of them below.
    pairs = [{"key": clean_name(key), "value": value[:500]} for key, value in params.items()]
    with suppress(TrackingRefused):  # another server's limits on names
        for first in range(0, len(pairs), 100):
            server.call("runs/log-batch", {"run_id": run_id, "params": pairs[first : first + 100]})
    return run_id


def end_run(
    server: TrackingServer, run_id: str, status: str, *, ended: float | None = None
) -> None:
    """Says how a run ended, now or at a time. Raises as `find_run`."""
    end_ms = _now_ms() if ended is None else round(ended * 1000)
    server.call("runs/update", {"run_id": run_id, "status": status, "end_time": end_ms})


def find_experiment(server: TrackingServer, name: str) -> str:
    """The id of an experiment, which is made if there is none. Raises as `find_run`."""
    try:
        return _read_experiment(server, name)
    except TrackingRefused as refused:
        if refused.code != "RESOURCE_DOES_NOT_EXIST":
            raise
    try:
        return str(server.call("experiments/create", {"name": name})["experiment_id"])
    except TrackingRefused:  # another job was faster
        return _read_experiment(server, name)


def _read_experiment(server: TrackingServer, name: str) -> str:
    answer = server.call("experiments/get-by-name", {"experiment_name": name}, method="GET")
    return str(answer["experiment"]["experiment_id"])


def make_metric(name: str, value: float, *, time_ms: int, step: int) -> dict[str, object]:
    """A value of a metric, as requests and answers have it."""
    spelled: float | str = value
    if not math.isfinite(value):  # JSON has no such numbers: protobuf writes them as texts
        spelled = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return {"key": name, "value": spelled, "timestamp": time_ms, "step": step}


@lru_cache(maxsize=1024)  # a batch has few names, and each a thousand times
def clean_name(name: str) -> str:
    """The name of a parameter, metric or tag as every MLflow server takes it.

    Servers keep names as files, and refuse the whole batch that has another one.

    Example:
        >>> clean_name("val/acc@5")
        'val/acc_5'
    """
    parts = _NOT_IN_NAMES.sub("_", name).split("/")
    text = "/".join(part for part in parts if part not in ("", ".", ".."))[:MOST_NAME].rstrip("/")
    return f"_{text}"[:MOST_NAME] if text.startswith("..") else text or "_"


def _read_answer(status: int, answer: bytes) -> dict[str, Any]:
    try:
        found = json.loads(answer or b"{}")
    except ValueError:
        found = {}
    if not isinstance(found, dict):
        found = {}
    if status != http.client.OK:
        text = str(found.get("message") or answer[:200])
        raise TrackingRefused(str(found.get("error_code") or status), text)
    return found


def _make_login(environ: Mapping[str, str]) -> dict[str, str]:
    if token := environ.get("MLFLOW_TRACKING_TOKEN"):
        return {"Authorization": f"Bearer {token}"}
    user, password = (environ.get(f"MLFLOW_TRACKING_{n}") for n in ("USERNAME", "PASSWORD"))
    if not user or password is None:
        return {}
    text = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"Authorization": f"Basic {text}"}


def _make_context(environ: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=environ.get("MLFLOW_TRACKING_SERVER_CERT_PATH"))
    if environ.get("MLFLOW_TRACKING_INSECURE_TLS", "").lower() in ("true", "1"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _now_ms() -> int:
    return round(time.time() * 1000)

"""The environment that steers stock AWS code to the platform, and what would steer it away."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import stoker
from stoker.platform.model.root import REGION, Credentials, Root, ServerInfo

Shell = Literal["sh", "fish", "json"]

# A variable of one service wins over AWS_ENDPOINT_URL; the rest belongs to other credentials.
_PREFIX = "AWS_ENDPOINT_URL_"
_CONFLICTING = (
    "AWS_DEFAULT_PROFILE",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    "AWS_PROFILE",
    "AWS_SECURITY_TOKEN",
    "AWS_SESSION_TOKEN",
    "AWS_USE_FIPS_ENDPOINT",
)
_PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
_PYTHON_START = str(Path(stoker.__file__).parent / "notebook/python_start")
_METADATA = "STOKER_NOTEBOOK_METADATA"
_LOOPBACK = ("127.0.0.1", "localhost")


def make_variables(
    root: Root, server: ServerInfo, credentials: Credentials, environ: Mapping[str, str]
) -> dict[str, str]:
    """What boto3, the AWS CLI and both SDKs need to speak to the platform.

    Args:
        root: The platform's folder.
        server: Who serves it.
        credentials: Its keys.
        environ: The environment to be changed: a proxy there must not be asked for loopback.
    """
    return {
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_ACCESS_KEY_ID": credentials.access_key,
        "AWS_SECRET_ACCESS_KEY": credentials.secret_key,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        # Profiles of other accounts would be refused here, and `aws configure` reads only files.
        "AWS_CONFIG_FILE": str(root.aws_config_file),
        "AWS_SHARED_CREDENTIALS_FILE": str(root.aws_config_file),
        # Plain MLflow clients give a password, those of an ARN sign their requests.
        "MLFLOW_TRACKING_URI": server.endpoint,
        "MLFLOW_TRACKING_USERNAME": credentials.access_key,
        "MLFLOW_TRACKING_PASSWORD": credentials.secret_key,
        "SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT": server.endpoint,
        "PYTHONPATH": _python_path(environ),
        # The SDKs' local mode and notebooks would show a job's output only at its end.
        "PYTHONUNBUFFERED": "1",
        "SAGEMAKER_SUPPRESS_V2_WARNING": "1",
        "SAGEMAKER_USER_CONFIG_OVERRIDE": str(root.sdk_config_file),
        # For the SDKs' own local mode, whose containers have another loopback.
        "STOKER_CONTAINER_ENDPOINT": server.container_endpoint,
        _METADATA: str(root.notebook_metadata_file),
        **_path(root, environ),
        **_no_proxy(environ),
    }


def make_undo(environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """What brings a shell back: variables that keep a part of their text, and those that go.

    What the shell had in their place before is not known any more.
    """
    if not environ.get(_METADATA):
        return {}, []
    root = Root(Path(environ[_METADATA]).parent)
    no_server = ServerInfo(pid=0, endpoint="", engine="", reason="", s3_port=0, started=0)
    ours = make_variables(root, no_server, Credentials(access_key="", secret_key=""), {})
    parts = {"PATH": str(root.bin_dir), "PYTHONPATH": _PYTHON_START}
    kept = {
        name: os.pathsep.join(f for f in environ.get(name, "").split(os.pathsep) if f != part)
        for name, part in parts.items()
    }
    kept = {name: text for name, text in kept.items() if text}
    return kept, sorted(name for name in ours.keys() & environ.keys() if name not in kept)


def find_conflicts(environ: Mapping[str, str]) -> list[str]:
    """The variables that would steer stock code past the platform."""
    return sorted(name for name in environ if name in _CONFLICTING or name.startswith(_PREFIX))


def is_proxied(environ: Mapping[str, str]) -> bool:
    """Whether requests to loopback would go to a proxy."""
    return bool(_no_proxy(environ))


def render_variables(variables: Mapping[str, str], *, removed: Sequence[str], shell: Shell) -> str:
    """The lines that a shell evaluates, or JSON with null for what must go."""
    if shell == "json":
        return json.dumps({**variables, **dict.fromkeys(removed)}, indent=1)
    if shell == "fish":
        lines = [f"set --erase {name}" for name in removed]
        lines += [f"set --export {name} {_fish_quoted(text)}" for name, text in variables.items()]
    else:
        lines = [f"unset {name}" for name in removed]
        lines += [f"export {name}={shlex.quote(text)}" for name, text in variables.items()]
    return "\n".join(lines)


def _python_path(environ: Mapping[str, str]) -> str:
    """With the folder first whose sitecustomize lets `get_execution_role()` find the platform."""
    stated = [folder for folder in environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    return os.pathsep.join([_PYTHON_START, *(f for f in stated if f != _PYTHON_START)])


def _path(root: Root, environ: Mapping[str, str]) -> dict[str, str]:
    """With the platform's `docker` first; without a PATH there are no commands to add to."""
    stated = environ.get("PATH", "")
    folders = [each for each in stated.split(os.pathsep) if each != str(root.bin_dir)]
    return {"PATH": os.pathsep.join([str(root.bin_dir), *folders])} if stated else {}


def _no_proxy(environ: Mapping[str, str]) -> dict[str, str]:
    if not any(environ.get(name) for name in _PROXIES):
        return {}
    stated = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    hosts = [host.strip() for host in stated.split(",") if host.strip()]
    if "*" in hosts or set(_LOOPBACK) <= set(hosts):
        return {}
    # Both spellings below: programs differ in which one they read.
    text = ",".join([*hosts, *(host for host in _LOOPBACK if host not in hosts)])
    return {"no_proxy": text, "NO_PROXY": text}


def _fish_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"

"""The TensorBoard program: what it needs, its keys, its command, its addresses."""

from __future__ import annotations

import importlib.util
import os
import socket
import sys
from collections.abc import Callable, Mapping

from stoker.cli.tensorboard.source import Source
from stoker.machine.failures import UsageRefused

FIRST_PORT = 6006  # TensorBoard's own default
_PORTS = 20
_RELOAD_SECONDS = 5
# Where the plug-in's page gets its charts and its trace viewer; without them it shows a spinner.
_FOREIGN = ("www.gstatic.com", "cdnjs.cloudflare.com")
_INSTALL = "pip install tensorboard torch-tb-profiler boto3"


def is_importable(module: str) -> bool:
    """Whether this Python has it."""
    return importlib.util.find_spec(module) is not None


def check_modules(source: Source, *, has: Callable[[str], bool] = is_importable) -> list[str]:
    """Looks for what TensorBoard would miss without a word.

    Returns:
        What will not be shown, as notes for the user.

    Raises:
        UsageRefused: nothing would be shown.
    """
    if not has("tensorboard"):
        raise UsageRefused(f"tensorboard is not installed for {sys.executable}", fix=_INSTALL)
    if source.is_on_s3 and not has("boto3"):
        raise UsageRefused(
            "boto3 is not installed: TensorBoard would show an empty page for s3://", fix=_INSTALL
        )
    if not has("torch_tb_profiler"):
        return [f"no profiler traces: torch-tb-profiler is not installed ({_INSTALL})"]
    return [
        f"traces are drawn by scripts from {' and '.join(_FOREIGN)}: let your browser get them"
    ]


def choose_port(asked: int | None) -> int:
    """The port asked for, else the first free one from 6006 on.

    Raises:
        UsageRefused: it is in use.
    """
    wanted = range(FIRST_PORT, FIRST_PORT + _PORTS) if asked is None else (asked,)
    for port in wanted:
        try:
            with socket.create_server(("localhost", port)) as server:
                return int(server.getsockname()[1])
        except (OSError, OverflowError):
            continue
    raise UsageRefused(
        f"no port is free from {wanted[0]} to {wanted[-1]}",
        fix="choose another --port; 0 takes any that is free",
    )


def make_command(source: Source, port: int) -> list[str]:
    """What is run; it serves this machine only."""
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", source.logdir]
    command += ["--host", "localhost", "--port", str(port)]
    # The "fast" reader cannot read s3://, is experimental, and outlives a killed TensorBoard.
    return [*command, "--load_fast", "false", "--reload_interval", str(_RELOAD_SECONDS)]


def render_addresses(port: int) -> str:
    """Where a browser finds it, also through a notebook's server."""
    return (
        f"  here                http://localhost:{port}/\n"
        f"  JupyterLab          <its address, up to /lab>/proxy/{port}/   (with the last slash)\n"
        "  SageMaker Studio    https://<domain>.studio.<region>.sagemaker.aws"
        f"/jupyterlab/default/proxy/{port}/\n"
        f"  notebook instance   https://<name>.notebook.<region>.sagemaker.aws/proxy/{port}/"
    )


_KEYS = {
    "AWS_ACCESS_KEY_ID": "aws_access_key_id",
    "AWS_SECRET_ACCESS_KEY": "aws_secret_access_key",
    "AWS_SESSION_TOKEN": "aws_session_token",
}
_FILE = "AWS_SHARED_CREDENTIALS_FILE"


def hand_over_keys(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment, with temporary keys moved from variables to a file in memory.

    torch-tb-profiler 0.4.3 takes key and secret from the environment and forgets the session's
    token, for all of TensorBoard: S3 refuses it, and the page stays empty without a word.

    Returns:
        A changed copy; the file lives as long as this process, or what it becomes by exec.
    """
    if not all(environ.get(name) for name in _KEYS):
        return dict(environ)
    lines = [f"{ours} = {environ[name]}" for name, ours in _KEYS.items()]
    profile = environ.get("AWS_PROFILE") or environ.get("AWS_DEFAULT_PROFILE") or "default"
    descriptor = os.memfd_create("aws-credentials", 0)  # 0: it survives exec
    os.write(descriptor, "\n".join([f"[{profile}]", *lines, ""]).encode())
    kept = {name: text for name, text in environ.items() if name not in _KEYS}
    # By our number, not /proc/self: the plug-in reads S3 in processes of its own, too.
    return {**kept, _FILE: f"/proc/{os.getpid()}/fd/{descriptor}"}

"""The TensorBoard program: what it needs, its command, its addresses."""

from __future__ import annotations

import importlib.util
import socket
import sys
from collections.abc import Callable

from stoker.host.failures import UsageRefused
from stoker.host.tensorboard.source import Source

FIRST_PORT = 6006
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

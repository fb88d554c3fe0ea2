"""A real S3 server over a plain folder."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def serve_s3(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each folder in it is a bucket; this process's AWS settings point there meanwhile."""
    with running_s3(folder) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", address)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        yield


@contextmanager
def running_s3(folder: Path, keys: str = "key,secret") -> Iterator[str]:
    """The address of a server over the folder, on a port that it has chosen itself."""
    rclone = shutil.which("rclone", path=str(Path(sys.executable).parent)) or "rclone"
    argv = [rclone, "serve", "s3", "--auth-key", keys, "--addr", "127.0.0.1:0"]
    argv += ["--config", "", "--dir-cache-time", "0s", str(folder)]
    server = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    said = ""
    while not (address := re.search(r"Starting s3 server on \[(\S+?)/?\]", said)):
        line = server.stderr.readline()
        assert line, f"the S3 server ended: {said}"
        said += line
    try:
        yield address[1]
    finally:
        server.terminate()
        server.stderr.read()
        server.stderr.close()
        server.wait()

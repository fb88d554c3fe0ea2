"""The platform's S3 server over a plain folder, without the platform."""

from __future__ import annotations

import os
import re
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
    argv = [sys.executable, "-m", "stoker.platform.s3", str(folder), "127.0.0.1:0"]
    with subprocess.Popen(
        argv, env={**os.environ, "STOKER_S3_KEYS": keys}, stdout=subprocess.PIPE, text=True
    ) as server:
        address = re.search(r"http://[\d.:]+", server.stdout.readline())
        assert address, "the S3 server ended"
        try:
            yield address[0]
        finally:
            server.terminate()

"""The AWS CLI and s3fs, as users install them, against the real server."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from stoker.machine.processes import descendants
from tests.conftest import OF_THE_SESSION
from tests.s3_server import running_s3
from tests.sdks import run_sdk, sdk_python

pytestmark = [pytest.mark.functional, pytest.mark.timeout(600)]

DEADLINE_SECONDS = 120
MIB = 1 << 20


@pytest.fixture(scope="module")
def environ(tmp_path_factory):
    with running_s3(tmp_path_factory.mktemp("s3")) as address:
        OF_THE_SESSION.update(descendants(os.getpid()))
        yield {
            "AWS_ENDPOINT_URL": address,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }


def aws(environ, *words, sent=b""):
    done = subprocess.run(
        [sdk_python("cli").with_name("aws"), "s3", *words],
        env={**os.environ, **environ},
        input=sent,
        capture_output=True,
        timeout=DEADLINE_SECONDS,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_the_aws_cli_moves_folders_and_streams(environ, tmp_path):
    up, down = tmp_path / "up", tmp_path / "down"
    (up / "sub").mkdir(parents=True)
    (up / "sub/large.bin").write_bytes(os.urandom(MIB) * 9)
    (up / "a b+c%20ü.txt").write_text("odd")
    aws(environ, "mb", "s3://moved")
    aws(environ, "sync", str(up), "s3://moved/up/", "--quiet")
    aws(environ, "mv", "s3://moved/up/", "s3://moved/there/", "--recursive", "--quiet")
    aws(environ, "sync", "s3://moved/there", str(down), "--quiet")
    assert read(down) == read(up)
    aws(environ, "cp", "-", "s3://moved/piped", sent=b"piped")
    assert "piped" in aws(environ, "rb", "s3://moved", "--force")


def test_s3fs_reads_writes_appends_and_copies(environ):
    said = run_sdk("cli", Path(__file__).with_name("s3fs_client.py"), environ=environ)
    assert said["end"] == "xyz"
    assert said["listed"] == [
        *("files/a/b/one", "files/a/b/two", "files/a/large"),
        *("files/copied/b/one", "files/copied/b/two"),
    ]
    assert said["sizes"]["files/a/large"] == 6 * MIB + 2
    assert said["globbed"] == ["files/a/b/one", "files/copied/b/one"]
    assert said["is_gone"]


def read(folder):
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}

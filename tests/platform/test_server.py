"""The server of a root as a process: one at a time, found again, ended cleanly."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from stoker.platform.model.root import open_root, read_server_info
from stoker.runtime.processes import descendants
from tests.conftest import DEADLINE_SECONDS, wait_for_file
from tests.platform.local_server import wait_until

pytestmark = pytest.mark.functional


@pytest.fixture
def root(tmp_path):
    return open_root(tmp_path / "root")


def start(root, *arguments):
    command = [sys.executable, "-m", "stoker.platform", "--root", str(root.folder)]
    return subprocess.Popen(
        [*command, "--engine", "process", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(server):
    server.send_signal(signal.SIGTERM)
    out, _ = server.communicate(timeout=DEADLINE_SECONDS)
    return server.returncode, out


def test_a_root_has_one_server_that_the_second_names(root):
    before = {*descendants(os.getpid())}  # of other tests: multiprocessing keeps its own servers
    first = start(root)
    try:
        wait_for_file(root.server_file)
        endpoint = json.loads(root.server_file.read_text())["endpoint"]
        second = start(root)
        _, said = second.communicate(timeout=DEADLINE_SECONDS)
        assert second.returncode == 2
        assert f"process {first.pid}, address {endpoint}" in said
        assert "fix: " in said
    finally:
        code, out = end(first)
    assert code == 0
    assert "engine    process (as asked)" in out
    assert endpoint in out
    assert read_server_info(root) is None
    # S3 is not the server's child: it ends by itself once nothing uses it.
    wait_until(lambda: before >= {*descendants(os.getpid())}, "S3 does not end")


def test_a_killed_server_leaves_nothing_in_the_way_of_the_next(root):
    killed = start(root)
    wait_for_file(root.server_file)
    killed.kill()
    killed.communicate(timeout=DEADLINE_SECONDS)
    assert read_server_info(root) is not None
    following = start(root)
    try:
        line = following.stdout.readline() + following.stdout.readline()
        server = read_server_info(root)
        assert server is not None
        assert server.pid == following.pid
        assert server.endpoint in line
    finally:
        assert end(following)[0] == 0


def test_a_port_in_use_is_refused_with_the_fix(root):
    with socket.create_server(("127.0.0.1", 0)) as other:
        server = start(root, "--port", str(other.getsockname()[1]))
        _, said = server.communicate(timeout=DEADLINE_SECONDS)
    assert server.returncode == 2
    assert "is taken by another program" in said
    assert "--port" in said

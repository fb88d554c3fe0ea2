"""The folder of a platform: its keys, its lock, its ports."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.errors import HostError
from stoker.platform.model.ports import choose_port, is_free, remember_port
from stoker.platform.model.root import (
    DEFAULT_BUCKET,
    RootInUse,
    ServerInfo,
    open_root,
    read_credentials,
    read_server_info,
    remove_server_info,
    take_lock,
    write_server_info,
)

LOOPBACK = ("127.0.0.1",)
HOLD_THE_LOCK = """\
import sys, time
from pathlib import Path
from stoker.platform.model.root import open_root, take_lock
lock = take_lock(open_root(Path(sys.argv[1])))
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def root(tmp_path):
    return open_root(tmp_path / "root")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_root_is_private_and_has_keys_a_bucket_and_a_configuration(root):
    assert (mode(root.folder), mode(root.credentials_file)) == (0o700, 0o600)
    assert (root.s3_dir / DEFAULT_BUCKET).is_dir()
    assert DEFAULT_BUCKET in root.sdk_config_file.read_text()
    assert (mode(root.aws_config_file), mode(root.bin_dir / "docker")) == (0o600, 0o755)
    keys = read_credentials(root)
    assert len(keys.secret_key) >= 30
    assert "," not in keys.access_key + keys.secret_key
    assert not list(root.folder.glob("*.tmp"))


def test_what_jobs_leave_in_an_open_folder_is_private_and_the_folder_stays_as_it_is(tmp_path):
    for part in ("jobs", "logs", "s3"):
        (tmp_path / part).mkdir()
    (tmp_path / "platform.sqlite").touch(mode=0o644)
    tmp_path.chmod(0o755)
    root = open_root(tmp_path)
    kept = (root.jobs_dir, root.logs_dir, root.s3_dir, root.processes_dir, root.kept)
    assert {mode(part) for part in kept} == {0o700}
    assert {mode(file) for file in (root.database, root.server_log)} == {0o600}
    assert mode(root.folder) == 0o755


def test_opening_again_keeps_the_keys_and_another_root_has_others(root, tmp_path):
    assert read_credentials(open_root(root.folder)) == read_credentials(root)
    assert read_credentials(open_root(tmp_path / "other")) != read_credentials(root)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '"x"'])
def test_damaged_keys_are_named_with_the_fix(root, text):
    root.credentials_file.write_text(text)
    with pytest.raises(HostError, match=r"credentials\.json"):
        read_credentials(root)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(HostError, match="cannot be used"):
        open_root(tmp_path / "file" / "root")


def test_the_lock_names_its_holder_and_falls_with_it(root):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD_THE_LOCK, str(root.folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        server = ServerInfo(
            pid=1, endpoint="http://here:1", engine="process", reason="", s3_port=2, started=0
        )
        write_server_info(root, server)
        with pytest.raises(RootInUse, match=f"process {holder.pid}, address http://here:1"):
            take_lock(root)
        holder.send_signal(signal.SIGKILL)
    lock = take_lock(root)
    lock.release()
    take_lock(root).release()


def test_the_server_file_is_read_as_written_and_nonsense_is_ignored(root):
    assert read_server_info(root) is None
    server = ServerInfo(
        pid=7, endpoint="http://x", engine="docker", reason="it answers", s3_port=1, started=2.5
    )
    write_server_info(root, server)
    assert read_server_info(root) == server
    for text in ("", "[]", '{"pid": 1}'):
        root.server_file.write_text(text)
        assert read_server_info(root) is None
    remove_server_info(root)
    remove_server_info(root)


def test_a_port_stays_the_same_for_the_next_server(root):
    port = choose_port(root, "api", LOOPBACK)
    remember_port(root, "api", port)
    remember_port(root, "s3", 1)
    # Any program of this machine may have taken it meanwhile.
    assert choose_port(root, "api", LOOPBACK) == port or not is_free(port, LOOPBACK)


def test_a_port_that_is_served_is_not_free(root, monkeypatch):
    monkeypatch.setattr("stoker.platform.model.ports._WAIT_SECONDS", 0)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert not is_free(port, LOOPBACK)
        remember_port(root, "api", port)
        assert choose_port(root, "api", LOOPBACK) != port


def test_an_address_this_machine_has_not_is_named(root):
    with pytest.raises(HostError, match=r"192\.0\.2\.1"):
        choose_port(root, "s3", ("192.0.2.1",))

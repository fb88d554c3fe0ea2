"""model.tar.gz: what is in it, and what must never be."""

from __future__ import annotations

import os
import socket
import subprocess
import tarfile
from pathlib import Path

import pytest

from stoker.platform.data.artifacts import Merged, pack

MODEL = ("model",)


@pytest.fixture
def host(tmp_path):
    folder = tmp_path / "algo-1"
    (folder / "model").mkdir(parents=True)
    return folder


def packed(tmp_path, *hosts):
    """Member → content, link target or None; and what was skipped."""
    folder = Merged({host.name: host for host in hosts}, MODEL)
    pack(folder, tmp_path / "model.tar.gz")
    members = {}
    with tarfile.open(tmp_path / "model.tar.gz") as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            members[member.name] = content.read() if content else member.linkname or None
    return members, folder.skipped


def test_other_programs_read_the_archive(host, tmp_path):
    weights = os.urandom(5 << 20) + bytes(5 << 20)
    model = host / "model"
    (model / "empty").mkdir()
    (model / "code").mkdir()
    (model / "code/inference.py").write_text("x = 1\n")
    (model / "model.pth").write_bytes(weights)
    (model / "run.sh").write_text("#!/bin/sh\n")
    (model / "run.sh").chmod(0o755)
    packed(tmp_path, host)
    (tmp_path / "out").mkdir()
    subprocess.run(["tar", "-xzf", "model.tar.gz", "-C", "out"], cwd=tmp_path, check=True)
    subprocess.run(["gzip", "--test", "model.tar.gz"], cwd=tmp_path, check=True)
    out = tmp_path / "out"
    assert (out / "model.pth").read_bytes() == weights
    assert (out / "code/inference.py").read_text() == "x = 1\n"
    assert (out / "empty").is_dir()
    assert (out / "run.sh").stat().st_mode & 0o777 == 0o755


def test_links_stay_links_unless_they_lead_out(host, tmp_path):
    model = host / "model"
    (model / "a").mkdir()
    (model / "a/weights").write_text("w")
    (model / "relative").symlink_to("a/weights")
    (model / "a/absolute").symlink_to("/opt/ml/model/a/weights")
    (model / "shadow").symlink_to("/etc/shadow")
    (model / "up").symlink_to("../../../etc/shadow")
    (model / "input").symlink_to("/opt/ml/model/../input")
    members, skipped = packed(tmp_path, host)
    assert members == {
        "a": None,
        "a/weights": b"w",
        "a/absolute": "weights",
        "relative": "a/weights",
    }
    assert [name.partition(":")[0] for name in skipped] == [
        *("model/input", "model/shadow", "model/up"),
    ]
    assert "a link out of the folder, to /etc/shadow" in skipped[1]


def test_the_folder_itself_as_a_link_gives_nothing(host, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (host / "model").rmdir()
    (host / "model").symlink_to(outside)
    assert packed(tmp_path, host) == ({}, [])


def test_pipes_and_sockets_are_skipped_and_named(host, tmp_path, monkeypatch):
    os.mkfifo(host / "model/fifo")
    monkeypatch.chdir(host / "model")  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind("socket")
        members, skipped = packed(tmp_path, host)
    assert members == {}
    assert len(skipped) == 2


def test_hosts_are_merged_and_the_first_one_wins(host, tmp_path):
    other = tmp_path / "algo-2"
    for folder, names in ((host, ("both", "rank0", "deep/a")), (other, ("both", "deep/b"))):
        for name in names:
            file = folder / "model" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(folder.name)
    (other / "model/rank0").mkdir()
    (other / "model/rank0/x").write_text("x")
    members, skipped = packed(tmp_path, host, other)
    assert members == {
        "both": b"algo-1",
        "rank0": b"algo-1",
        "deep": None,
        "deep/a": b"algo-1",
        "deep/b": b"algo-2",
    }
    assert [name.partition(":")[0] for name in skipped] == ["model/both", "model/rank0"]


def test_a_full_disk_is_an_error_and_no_hang(host):
    (host / "model/weights").write_bytes(os.urandom(8 << 20))
    with pytest.raises(OSError, match="No space left"):
        pack(Merged({"algo-1": host}, MODEL), Path("/dev/full"))

"""The next save overwrites the file of a removed checkpoint, if no other process needs it."""

from __future__ import annotations

import errno
import mmap
import os
import subprocess
import sys

import pytest
import torch

import stoker
from stoker.checkpoints.spare import Spare
from stoker.checkpoints.store import Store
from stoker.errors import CheckpointFailed

FILE = "rank00000.safetensors"
READER = """
import sys
with open(sys.argv[1], "rb") as file:
    print("open", flush=True)
    sys.stdin.readline()
    sys.stdout.buffer.write(file.read())
"""


@pytest.fixture
def job(tmp_path):
    return stoker.job(root=tmp_path, environ={})


def save(job, ckpt):
    """One more checkpoint, on the disk; returns its file."""
    ckpt.advance()
    ckpt.save()
    ckpt.flush()
    return f"{Store(job.checkpoint_dir).read_all()[-1].path}/{FILE}"


def inode(path):
    return os.stat(path).st_ino


def content_of(path):
    with open(path, "rb") as file:
        return file.read()


def test_the_next_save_writes_over_what_was_removed(job):
    state = {"x": torch.zeros(1000)}
    with stoker.checkpoints(job, keep=1, state=state) as ckpt:
        first = inode(save(job, ckpt))
        second = inode(save(job, ckpt))
        state["x"] = torch.ones(1000)
        assert inode(save(job, ckpt)) == first != second
        newest = Store(job.checkpoint_dir).newest()
    assert newest.step == 3
    assert sorted(os.listdir(job.checkpoint_dir)) == [newest.name]
    state["x"] = torch.zeros(1000)
    with stoker.checkpoints(job, keep=1, state=state):
        assert torch.equal(state["x"], torch.ones(1000))


def test_a_smaller_state_leaves_nothing_of_the_larger_one(job):
    state = {"x": torch.ones(100_000)}
    with stoker.checkpoints(job, keep=1, state=state) as ckpt:
        first = inode(save(job, ckpt))
        save(job, ckpt)
        state["x"] = torch.ones(10)
        third = save(job, ckpt)
        assert inode(third) == first
        assert os.path.getsize(third) < 20_000
        assert Store(job.checkpoint_dir).newest().step == 3


def test_a_reader_of_a_removed_checkpoint_is_not_disturbed(job):
    state = {"x": torch.zeros(1000)}
    with stoker.checkpoints(job, keep=1, state=state) as ckpt:
        file = save(job, ckpt)
        before = content_of(file)
        argv = [sys.executable, "-c", READER, file]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
            assert reader.stdout.readline() == b"open\n"
            for _ in range(3):
                state["x"] += 1
                save(job, ckpt)
            reader.stdin.write(b"\n")
            reader.stdin.close()
            assert reader.stdout.read() == before


def test_a_process_that_has_mapped_it_keeps_what_it_sees(job):
    state = {"x": torch.zeros(1000)}
    with stoker.checkpoints(job, keep=1, state=state) as ckpt:
        file = save(job, ckpt)
        before = content_of(file)
        with open(file, "rb") as opened:
            mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        for _ in range(3):
            state["x"] += 1
            save(job, ckpt)
        assert mapped[:] == before
        mapped.close()


def test_a_checkpoint_that_has_another_name_as_well_is_left_alone(job, tmp_path):
    state = {"x": torch.zeros(1000)}
    with stoker.checkpoints(job, keep=1, state=state) as ckpt:
        file = save(job, ckpt)
        before = content_of(file)
        os.link(file, tmp_path / "mine.safetensors")
        for _ in range(3):
            state["x"] += 1
            save(job, ckpt)
    assert content_of(tmp_path / "mine.safetensors") == before


def test_a_checkpoint_that_is_a_link_costs_the_link_alone(job, tmp_path):
    state = {"x": torch.zeros(1000)}
    with stoker.checkpoints(job, keep=1, state=state) as ckpt:
        save(job, ckpt)
    (name,) = os.listdir(job.checkpoint_dir)
    (job.checkpoint_dir / name).rename(tmp_path / "archive")
    (job.checkpoint_dir / name).symlink_to(tmp_path / "archive")
    before = content_of(tmp_path / "archive" / FILE)
    with stoker.checkpoints(job, keep=1, state=state) as ckpt:
        for _ in range(4):
            state["x"] += 1
            save(job, ckpt)
    assert content_of(tmp_path / "archive" / FILE) == before
    assert [file.is_symlink() for file in job.checkpoint_dir.iterdir()] == [False]


def test_a_file_that_is_a_link_is_never_written_through(job, tmp_path):
    state = {"x": torch.zeros(1000)}
    with stoker.checkpoints(job, keep=1, state=state) as ckpt:
        file = save(job, ckpt)
        os.rename(file, tmp_path / "precious")
        os.symlink(tmp_path / "precious", file)
        before = content_of(tmp_path / "precious")
        for _ in range(4):
            state["x"] += 1
            file = save(job, ckpt)
    assert content_of(tmp_path / "precious") == before
    assert not os.path.islink(file)


def test_on_an_overlay_nothing_is_written_over(tmp_path):
    """There a file can be mapped without being open, and no lease tells of it."""
    parts = {name: tmp_path / name for name in ("lower", "upper", "work", "merged")}
    for folder in parts.values():
        folder.mkdir()
    options = "lowerdir={lower},upperdir={upper},workdir={work}".format(**parts)
    mount = ["mount", "-t", "overlay", "overlay", "-o", options, str(parts["merged"])]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("an overlay cannot be mounted here")
    try:
        job = stoker.job(root=parts["merged"], environ={})
        state = {"x": torch.zeros(1000)}
        with stoker.checkpoints(job, keep=1, state=state) as ckpt:
            file = save(job, ckpt)
            size_bytes = os.path.getsize(file)
            mapped = torch.UntypedStorage.from_file(file, shared=True, nbytes=size_bytes)
            before = bytes(mapped)
            for _ in range(3):
                state["x"] += 1
                save(job, ckpt)
            assert bytes(mapped) == before
            del mapped
    finally:
        subprocess.run(["umount", "--lazy", str(parts["merged"])], check=True)


def test_what_a_dead_writer_kept_is_swept_and_called_no_checkpoint(job, capfd):
    folder = job.checkpoint_dir
    (folder / "000001-step-1").mkdir(parents=True)
    (folder / "000001-step-1" / FILE).write_bytes(b"old")
    Spare(str(folder), "token-0", FILE).remove(str(folder / "000001-step-1"))
    assert os.listdir(folder) == ["stoker-token-0-spare.sagemaker-ignore"]
    with stoker.checkpoints(job, state={"x": 1}):
        assert not list(folder.glob("*spare*"))
    assert "half-written" not in "".join(capfd.readouterr())


def test_a_full_disk_gets_back_what_was_kept(job, monkeypatch):
    """mkdir's answer on a full ext4 is played: tmpfs never gives it for a folder."""
    make, state = os.makedirs, {"x": torch.zeros(1000)}

    def is_kept():
        return any("-spare" in name for name in os.listdir(job.checkpoint_dir))

    def makedirs(path, *args, **options):
        if "stoker-" in str(path) and is_kept():
            raise OSError(errno.ENOSPC, "No space left on device")
        make(path, *args, **options)

    with stoker.checkpoints(job, keep=1, state=state) as ckpt:
        save(job, ckpt)
        save(job, ckpt)
        assert is_kept()
        monkeypatch.setattr(os, "makedirs", makedirs)
        with pytest.raises(CheckpointFailed, match="No space left on device"):
            save(job, ckpt)
        save(job, ckpt)
    assert Store(job.checkpoint_dir).newest().step == 4

"""What a job leaves is read and removed, whatever depth and modes it has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.platform.data.confined import make_readable, remove_tree

DEPTH = 1500
"""Deeper than Python's stack, and far longer than a path may be."""


def make_deep(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    for number in range(DEPTH):
        os.mkdir("deeper", dir_fd=handle)
        inner = os.open("deeper", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
        if number % 100 == 0:
            os.close(os.open("file", os.O_CREAT, dir_fd=handle))
    os.close(handle)


def test_a_tree_is_removed_however_deep_and_no_link_in_it_is_followed(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/kept").touch()
    left = tmp_path / "left"
    (left / "a/b").mkdir(parents=True)
    make_deep(left / "a")
    for place in (left / "link", left / "a/link", left / "a/b/link"):
        place.symlink_to(tmp_path / "mine")
    os.mkfifo(left / "a/fifo")
    remove_tree(left)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert (tmp_path / "mine/kept").exists()
    with pytest.raises(FileNotFoundError):
        remove_tree(left)


def test_modes_neither_keep_a_tree_from_being_read_nor_from_being_removed(tmp_path):
    left = tmp_path / "left"
    (left / "model/closed/inner").mkdir(parents=True)
    (left / "model/closed/inner/file").write_text("weights")
    (left / "model/fixed").mkdir()
    (left / "model/fixed/file").touch()
    (left / "model/link").symlink_to("/etc/passwd")
    (left / "model/closed/inner/file").chmod(0)
    (left / "model/closed/inner").chmod(0)
    (left / "model/closed").chmod(0)
    (left / "model/fixed").chmod(0o555)
    make_readable(left, ("model",))
    assert (left / "model/closed/inner/file").read_text() == "weights"
    assert (left / "model/closed").stat().st_mode & 0o777 == 0o500
    assert (left / "model/fixed").stat().st_mode & 0o777 == 0o555
    remove_tree(left)
    assert not left.exists()

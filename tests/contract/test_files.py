"""Reading the platform's JSON files, and writing whole files."""

from __future__ import annotations

import os
import resource

import pytest

from stoker.contract.files import read_object, write_atomically
from stoker.errors import ConfigInvalid


def test_an_absent_file_is_empty(tmp_path):
    assert read_object(f"{tmp_path}/absent.json") == {}
    assert read_object(f"{tmp_path}/no/such/folder/absent.json") == {}


@pytest.mark.parametrize("raw", [b'{"a": 1}', b'\xef\xbb\xbf{"a": 1}', b' \n{"a": 1}\n'])
def test_an_object_is_read(tmp_path, raw):
    file = tmp_path / "x.json"
    file.write_bytes(raw)
    assert read_object(str(file)) == {"a": 1}


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"{", "not valid JSON"),
        (b"{'a': 1}", "not valid JSON"),
        (b"[1]", "JSON list"),
        (b"null", "JSON NoneType"),
        (b"\xff{}", "not UTF-8"),
        (b"[" * 100_000, "not valid JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not valid JSON"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_reason(tmp_path, raw, said):
    file = tmp_path / "x.json"
    file.write_bytes(raw)
    with pytest.raises(ConfigInvalid, match=said) as caught:
        read_object(str(file))
    assert str(file) in caught.value.message
    assert caught.value.fix


def test_a_folder_and_a_file_as_parent_are_told(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file/x.json"):
        with pytest.raises(ConfigInvalid) as caught:
            read_object(str(path))
        assert caught.value.fix


def test_a_whole_file_replaces_the_old_one(tmp_path):
    file = tmp_path / "out"
    file.write_text("old")
    write_atomically(str(file), "new größe")
    assert file.read_text(encoding="utf-8") == "new größe"
    assert os.listdir(tmp_path) == ["out"]


def test_a_failed_write_leaves_the_old_file_and_nothing_next_to_it(tmp_path):
    (tmp_path / "out").mkdir()  # a rename over a folder fails after the text was written
    with pytest.raises(OSError, match="out"):
        write_atomically(f"{tmp_path}/out", "new")
    assert os.listdir(tmp_path) == ["out"]


def test_a_write_that_fails_leaves_nothing_behind(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2, before[1]))  # a disk with little room
    try:
        with pytest.raises(OSError, match="File too large"):
            write_atomically(f"{tmp_path}/out", "too much")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert os.listdir(tmp_path) == []


def test_the_temporary_name_is_one_the_uploader_ignores(tmp_path):
    (tmp_path / f"out.{os.getpid()}.sagemaker-ignore").mkdir()
    with pytest.raises(FileExistsError):
        write_atomically(f"{tmp_path}/out", "text")


def test_a_link_under_the_temporary_name_is_not_followed(tmp_path):
    (tmp_path / f"out.{os.getpid()}.sagemaker-ignore").symlink_to(tmp_path / "elsewhere")
    write_atomically(f"{tmp_path}/out", "text")
    assert os.listdir(tmp_path) == ["out"]

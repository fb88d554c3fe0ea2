"""The code of a job: what is sent, what is left out, and when it is the same."""

from __future__ import annotations

import os
import subprocess

import pytest

from stoker.cli.client import source as source_module
from stoker.cli.client.source import pack_source, read_source
from stoker.machine.failures import UsageRefused
from stoker.runtime.unpack import unpack


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "project"
    write(folder, {"train.py": "pass", "pkg/model.py": "", "pkg/data/big.bin": "x" * 100})
    return folder


def write(folder, files):
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def test_ignore_files_count_as_git_counts_them(folder):
    write(
        folder,
        {
            ".gitignore": "*.log\n/build/\n*.bin\n!keep.bin\n\\#odd\ntrailing \n",
            "pkg/.gitignore": "!important.log\nlocal/\n",
            "a.log": "",
            "pkg/important.log": "",
            "pkg/other.log": "",
            "pkg/local/x.py": "",
            "build/x.py": "",
            "pkg/build/x.py": "",
            "keep.bin": "",
            "#odd": "",
            "trailing": "",
        },
    )
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    found = read_source(folder, "train.py")
    assert set(found.names) == set(filter(None, listed.split("\0")))
    assert {"a.log", "build", "pkg/local", "pkg/data/big.bin"} <= set(found.ignored)


def test_stokerignore_decides_over_gitignore_and_a_repository_above_counts(folder):
    (folder.parent / ".git").mkdir()
    write(folder.parent, {".gitignore": "*.bin\nsecret.py\n"})
    write(folder, {".stokerignore": "!big.bin\npkg/model.py\n", "secret.py": ""})
    found = read_source(folder, "train.py")
    assert found.names == (".stokerignore", "pkg/data/big.bin", "train.py")
    assert found.ignored == ("pkg/model.py", "secret.py")
    [line] = found.explain()
    assert "pkg/model.py, secret.py" in line


def test_a_channel_below_the_code_is_not_sent_with_it(folder, monkeypatch):
    monkeypatch.setattr(source_module, "_MOST_BYTES", 50)
    write(folder, {".gitignore": "/ignored/\n", "ignored/x": "", "train_data.py": ""})
    (folder.parent / "far").mkdir()
    (folder / "linked").symlink_to(folder.parent / "far")
    channels = [folder / "pkg/data", folder / "ignored", folder / "linked"]
    found = read_source(folder, "train.py", channels=channels)
    assert found.names == (".gitignore", "pkg/model.py", "train.py", "train_data.py")
    assert found.channels == ("ignored", "linked", "pkg/data")
    assert list(found.explain()) == [
        "code: left out, since they are channels: ignored, linked, pkg/data"
    ]


def test_a_channel_that_holds_the_script_is_sent_as_code(folder):
    for channel in (folder, folder.parent):
        assert len(read_source(folder, "train.py", channels=[channel]).names) == 3
    assert len(read_source(folder, "pkg/model.py", channels=[folder / "pkg"]).names) == 3


def test_the_same_code_is_recognised_by_its_content(folder):
    first = read_source(folder, "train.py").digest
    os.utime(folder / "train.py", ns=(1, 1))
    assert read_source(folder, "train.py").digest == first
    (folder / "train.py").write_text("pas ")
    changed = read_source(folder, "train.py").digest
    (folder / "train.py").chmod(0o755)
    assert len({first, changed, read_source(folder, "train.py").digest}) == 3


def test_large_code_is_named_and_huge_code_refused_unless_allowed(folder, monkeypatch):
    monkeypatch.setattr(source_module, "_LARGE_BYTES", 50)
    assert "data belongs into --channel" in next(read_source(folder, "train.py").explain())
    monkeypatch.setattr(source_module, "_MOST_BYTES", 50)
    with pytest.raises(UsageRefused, match="104 B of code, more than 50 B") as caught:
        read_source(folder, "train.py")
    assert "--large-source" in caught.value.fix
    assert read_source(folder, "train.py", is_large_allowed=True).size_bytes == 104


def test_a_script_that_is_left_out_is_refused(folder):
    write(folder, {".gitignore": "train.py\n"})
    with pytest.raises(UsageRefused, match=r"the script train\.py is left out") as caught:
        read_source(folder, "train.py")
    assert "!/train.py" in caught.value.fix


def test_links_sockets_and_links_to_nowhere_do_no_harm(folder):
    (folder / "link").symlink_to("nowhere")
    (folder / "circle").symlink_to(".")
    os.mkfifo(folder / "pipe")
    found = read_source(folder, "train.py")
    assert {"link", "circle"} <= set(found.names)
    assert "pipe" not in found.names


def test_links_out_of_the_folder_are_packed_as_files_or_left_out_by_name(folder, tmp_path):
    outside = tmp_path / "outside"
    write(outside, {"common.py": "SHARED = 1\n", "data/huge.bin": "x"})
    (folder / "lib").mkdir()
    (folder / "lib/common.py").symlink_to(outside / "common.py")
    (folder / "data").symlink_to(outside / "data")
    (folder / "gone").symlink_to("/nonexistent")
    (folder / "up").symlink_to("../..")
    found = read_source(folder, "train.py")
    assert found.links_out == ("data", "gone", "up")
    assert "they lead out of" in next(line for line in found.explain() if "data" in line)
    pack_source(found, tmp_path / "code.tar.gz", show=print)
    (tmp_path / "unpacked").mkdir()
    unpack(tmp_path / "code.tar.gz", tmp_path / "unpacked")
    assert (tmp_path / "unpacked/lib/common.py").read_text() == "SHARED = 1\n"
    (outside / "common.py").write_text("SHARED = 2\n")
    assert read_source(folder, "train.py").digest != found.digest

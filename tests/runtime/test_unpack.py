"""Source archives that may come from anywhere."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile

import pytest

from stoker.errors import ArchiveUnsafe, CodeMissing
from stoker.runtime.unpack import unpack


def file(name, text=b"text", mode=0o644):
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(text), mode
    return member, text


def folder(name):
    member = tarfile.TarInfo(name)
    member.type, member.mode = tarfile.DIRTYPE, 0o755
    return member, b""


def link(name, target, kind=tarfile.SYMTYPE):
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member, b""


def hard(name, target):
    return link(name, target, tarfile.LNKTYPE)


def special(name, kind):
    member = tarfile.TarInfo(name)
    member.type = kind
    return member, b""


@pytest.fixture
def pack(tmp_path):
    def write(*members, name="sourcedir.tar.gz", mode="w:gz"):
        with tarfile.open(tmp_path / name, mode) as tar:
            for member, text in members:
                tar.addfile(member, io.BytesIO(text))
        return tmp_path / name

    return write


@pytest.fixture
def target(tmp_path):
    (tmp_path / "outside").write_text("precious")
    (tmp_path / "deep/code").mkdir(parents=True)
    return tmp_path / "deep/code"


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_an_ordinary_archive_is_unpacked(pack, target, mode):
    archive = pack(folder("pkg"), file("pkg/a.py", b"a"), file("./train.py"), mode=mode)
    assert unpack(archive, target) == 3
    assert (target / "pkg/a.py").read_bytes() == b"a"
    assert (target / "train.py").exists()


def test_links_that_stay_inside_are_kept(pack, target):
    unpack(pack(file("a"), folder("d"), link("d/b", "../a"), hard("c", "a")), target)
    assert (target / "d/b").read_bytes() == b"text"
    assert (target / "c").samefile(target / "a")


def test_modes_lose_what_is_dangerous_and_keep_what_is_useful(pack, target):
    unpack(pack(file("s", mode=0o6777), file("r", mode=0o000)), target)
    assert (target / "s").stat().st_mode & 0o7777 == 0o755
    assert (target / "r").stat().st_mode & 0o7777 == 0o600


UNSAFE = {
    "a name that climbs": [file("../outside")],
    "a name that climbs from within": [file("a/../../outside")],
    "an absolute name": [file("/tmp/stoker-unsafe-test")],
    "a link out": [link("l", "../outside")],
    "an absolute link": [link("l", "/etc/passwd")],
    "a link out from a folder": [folder("d"), link("d/l", "../../outside")],
    "a hard link out": [hard("h", "../outside")],
    "an absolute hard link": [hard("h", "/etc/passwd")],
    "a device": [special("d", tarfile.CHRTYPE)],
    "a block device": [special("d", tarfile.BLKTYPE)],
    "a FIFO": [special("f", tarfile.FIFOTYPE)],
}
# `d/up` is the folder itself, so `d/up/..` is its parent, though it reads like `d`.
DETOUR = [folder("d"), link("d/up", "..")]
DETOURS = {
    "a folder through a chain of links": [*DETOUR, link("out", "d/up/.."), file("out/outside")],
    "a file written through a chain of links": [
        *DETOUR,
        link("out", "d/up/../outside"),
        file("out", b"overwritten"),
    ],
    "a hard link through a chain of links": [
        *DETOUR,
        hard("out", "d/up/../outside"),
        file("out", b"overwritten"),
    ],
    "a link that only points outside": [*DETOUR, link("out", "d/up/../outside")],
}


@pytest.mark.parametrize("name", {**UNSAFE, **DETOURS})
def test_an_unsafe_archive_is_refused_and_nothing_is_written_outside(pack, target, name):
    before = sorted(p for p in target.parents[1].rglob("*") if target not in p.parents)
    archive = pack(file("harmless"), *({**UNSAFE, **DETOURS}[name]))
    with pytest.raises(ArchiveUnsafe, match=r"sourcedir.tar.gz is refused: '") as caught:
        unpack(archive, target)
    assert caught.value.fix
    after = {p for p in target.parents[1].rglob("*") if target not in p.parents}
    assert after - {archive} == set(before)


@pytest.mark.parametrize("name", {**UNSAFE, **DETOURS})
def test_whatever_an_archive_holds_files_outside_keep_their_content(pack, target, name):
    near, far = target.parent / "outside", target.parents[1] / "outside"
    near.write_text("precious")
    with contextlib.suppress(ArchiveUnsafe):
        unpack(pack(*({**UNSAFE, **DETOURS}[name])), target)
    assert near.read_text() == far.read_text() == "precious"
    assert not os.path.exists("/tmp/stoker-unsafe-test")


@pytest.mark.parametrize("name", {**UNSAFE, **DETOURS})
def test_of_an_unsafe_archive_nothing_is_written_at_all(pack, target, name):
    with contextlib.suppress(ArchiveUnsafe):
        unpack(pack(file("harmless"), *({**UNSAFE, **DETOURS}[name])), target)
    assert os.listdir(target) == []


def test_a_link_that_lay_there_before_is_not_written_through(pack, target):
    (target / "d").symlink_to(target.parent)
    with pytest.raises(ArchiveUnsafe, match="through a link"):
        unpack(pack(file("d/outside")), target)
    assert not (target.parent / "outside").exists()


def test_a_file_link_that_lay_there_before_is_not_written_through(pack, target):
    outside = target.parents[1] / "outside"
    (target / "train.py").symlink_to(outside)
    with contextlib.suppress(ArchiveUnsafe):
        unpack(pack(file("train.py", b"new")), target)
    assert outside.read_text() == "precious"


def test_a_target_that_is_itself_behind_a_link_is_fine(pack, target, tmp_path):
    (tmp_path / "alias").symlink_to(target)
    assert unpack(pack(folder("d"), file("d/a")), tmp_path / "alias") == 2
    assert (target / "d/a").exists()


@pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz"])
@pytest.mark.parametrize("damage", ["truncated", "garbled", "replaced", "empty"])
def test_a_damaged_archive_is_told_with_the_way_to_make_one(pack, target, mode, damage):
    archive = pack(file("a", os.urandom(50_000)), file("b", os.urandom(50_000)), mode=mode)
    raw = bytearray(archive.read_bytes())
    if damage == "truncated":
        del raw[len(raw) // 2 :]
    elif damage == "garbled":
        raw[len(raw) // 2 - 2000 : len(raw) // 2 + 2000] = b"\xff" * 4000
    else:
        raw[:] = b"no archive at all" if damage == "replaced" else b""
    archive.write_bytes(raw)
    with pytest.raises(CodeMissing, match="could not be unpacked") as caught:
        unpack(archive, target)
    assert "tar -czf" in caught.value.fix

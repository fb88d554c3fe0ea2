"""`stoker checkpoints` as a user calls it, on a folder and on a real S3 server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stoker.checkpoints.checksums import checksums_of
from stoker.checkpoints.manifest import Manifest, Metric, Shard, manifest_text
from stoker.cli.main import main
from tests.s3_server import serve_s3

SHARD = "rank00000.safetensors"


class Place:
    """A folder of checkpoints under the name the command is given."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name

    def save(self, serial: int, *, metric: float | None = None) -> str:
        step, name = serial * 100, f"{serial:06d}-step-{serial * 100}"
        body = bytes(range(256)) * 4 + name.encode()
        sums = tuple(checksums_of(memoryview(body), "crc32"))
        manifest = Manifest(
            step=step,
            epoch=serial,
            batch=0,
            world_size=1,
            shards=(Shard(name=SHARD, size_bytes=len(body), checksums=sums),),
            checksum="crc32",
            parts=("model", "optimizer"),
            metric=None if metric is None else Metric(value=metric, is_best=True),
            config={"lr": "0.1"},
            job="cats",
            saved_at="2026-11-16T14:00:00Z",
        )
        path = self.folder / name
        path.mkdir()
        (path / SHARD).write_bytes(body)
        (path / "manifest.json").write_text(manifest_text(manifest))
        return name

    def damage(self, name: str) -> None:
        body = bytearray((self.folder / name / SHARD).read_bytes())
        body[500] ^= 1
        (self.folder / name / SHARD).write_bytes(body)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


@pytest.fixture
def folder_place(tmp_path):
    (tmp_path / "ckpt").mkdir()
    return Place(tmp_path / "ckpt", str(tmp_path / "ckpt"))


@pytest.fixture
def s3_place(tmp_path, monkeypatch):
    """A prefix on a real S3 server over a plain folder, and a sibling that begins alike."""
    (tmp_path / "bucket/ckpt").mkdir(parents=True)
    (tmp_path / "bucket/ckpt-old").mkdir()
    (tmp_path / "bucket/ckpt-old/sibling.pt").write_text("x")
    with serve_s3(tmp_path, monkeypatch):
        yield Place(tmp_path / "bucket/ckpt", "s3://bucket/ckpt")


@pytest.fixture(params=["folder_place", "s3_place"])
def place(request):
    return request.getfixturevalue(request.param)


def test_ls_shows_what_is_there_and_what_a_resume_takes(place, capsys):
    place.save(1, metric=0.91)
    place.save(2)
    broken = place.save(3)
    (place.folder / broken / SHARD).unlink()
    (place.folder / "last.pt").write_bytes(b"x" * 2500)
    (place.folder / "runs").mkdir()
    (place.folder / "runs/events").write_bytes(b"y" * 10)
    assert main(["checkpoints", "ls", place.name]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:5] == ["000001-step-100", "100", "1", "1.04", "kB"]
    assert lines[1].endswith("best 0.91")
    assert lines[2].startswith("* 000002-step-200")
    assert lines[3].endswith(f"damaged: {SHARD} is missing")
    assert "files that are not Stoker's:" in lines
    assert lines[-2].split()[:3] == ["last.pt", "2.5", "kB"]
    assert lines[-1].split()[:3] == ["runs/", "10", "B"]
    assert "sibling" not in "".join(lines)


def test_ls_as_json(place, capsys):
    place.save(1)
    place.save(2)
    assert main(["checkpoints", "ls", place.name, "--json"]) == 0
    listing = json.loads(capsys.readouterr().out)
    assert [c["name"] for c in listing["checkpoints"]] == ["000001-step-100", "000002-step-200"]
    assert [c["is_newest"] for c in listing["checkpoints"]] == [False, True]
    assert listing["checkpoints"][0]["epoch"] == 1
    assert listing["foreign"] == []


def test_show_tells_all_of_the_newest_or_of_one(place, capsys):
    place.save(1)
    place.save(2)
    assert main(["checkpoints", "show", place.name]) == 0
    shown = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines())
    assert shown["name"] == "000002-step-200"
    assert shown["parts"] == "model, optimizer"
    assert shown["config"] == "lr=0.1"
    assert shown["job"] == "cats"
    assert main(["checkpoints", "show", place.name, "000001-step-100", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"] == [{"name": SHARD, "size_bytes": 1039}]


def test_verify_finds_a_flipped_bit_and_ends_with_1(place, capsys):
    place.save(1)
    assert main(["checkpoints", "verify", place.name]) == 0
    assert capsys.readouterr().out == "000001-step-100  valid\n"
    place.damage(place.save(2))
    assert main(["checkpoints", "verify", place.name]) == 1
    assert "000002-step-200  rank00000.safetensors is damaged" in capsys.readouterr().out
    assert main(["checkpoints", "verify", place.name, "000001-step-100", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["problems"] == {"000001-step-100": ""}


def test_verify_names_what_is_missing(place, capsys):
    (place.folder / place.save(1) / SHARD).unlink()
    place.save(2)
    assert main(["checkpoints", "verify", place.name]) == 1
    assert "000001-step-100  rank00000.safetensors is missing" in capsys.readouterr().out


def test_prune_keeps_the_newest_the_best_and_what_is_not_ours(place, capsys):
    names = [place.save(n, metric=0.9 if n == 2 else None) for n in range(1, 6)]
    (place.folder / "last.pt").write_text("x")
    before = place.names()
    assert main(["checkpoints", "prune", place.name, "--keep", "2", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert f"would remove {names[0]}\nwould remove {names[2]}\n" in said
    assert place.names() == before
    assert main(["checkpoints", "prune", place.name, "--keep", "2"]) == 0
    assert f"left: {names[1]}, {names[3]}, {names[4]};" in capsys.readouterr().out
    assert place.names() == [names[1], names[3], names[4], "last.pt"]


def test_prune_never_removes_the_last_valid_one(place, capsys):
    valid = place.save(1)
    for serial in (2, 3):
        place.damage(place.save(serial))
    assert main(["checkpoints", "prune", place.name, "--keep", "1", "--json"]) == 0
    assert valid in json.loads(capsys.readouterr().out)["left"]
    assert main(["checkpoints", "verify", place.name, valid]) == 0


def test_prune_leaves_what_is_being_uploaded(folder_place, capsys):
    first = folder_place.save(1)
    second = folder_place.save(2)
    (folder_place.folder / first / f"{SHARD}.sagemaker-uploading").touch()
    assert main(["checkpoints", "prune", folder_place.name, "--keep", "1"]) == 0
    assert "nothing to remove" in capsys.readouterr().out
    assert folder_place.names() == [first, second]
    assert main(["checkpoints", "ls", folder_place.name]) == 0
    assert "uploading" in capsys.readouterr().out


def test_prune_to_nothing_is_refused(folder_place, capsys):
    folder_place.save(1)
    assert main(["checkpoints", "prune", folder_place.name, "--keep", "0"]) == 2
    assert "would leave nothing" in capsys.readouterr().err


def test_a_name_that_is_not_there_is_refused_with_the_nearest(place, capsys):
    place.save(1)
    assert main(["checkpoints", "show", place.name, "000001-step-1"]) == 2
    assert "did you mean 000001-step-100?" in capsys.readouterr().err


def test_a_place_without_checkpoints_is_not_an_error(folder_place, capsys):
    assert main(["checkpoints", "ls", folder_place.name]) == 0
    assert capsys.readouterr().out.endswith(": no checkpoints\n")
    assert main(["checkpoints", "verify", folder_place.name]) == 0
    assert main(["checkpoints", "show", folder_place.name]) == 2


def test_a_place_that_is_not_there_is_refused(tmp_path, capsys):
    assert main(["checkpoints", "ls", str(tmp_path / "none")]) == 2
    assert "is not a folder" in capsys.readouterr().err


def test_an_empty_prefix_and_a_missing_bucket_are_told(s3_place, capsys):
    assert main(["checkpoints", "ls", "s3://bucket/nothing"]) == 2
    assert "there is nothing in s3://bucket/nothing" in capsys.readouterr().err
    assert main(["checkpoints", "ls", "s3://no-such-bucket/x"]) == 3
    assert "NoSuchBucket" in capsys.readouterr().err
    assert main(["checkpoints", "ls", "s3:///x"]) == 2


def test_a_hostile_manifest_on_s3_reaches_no_file_outside(s3_place, capsys):
    name = s3_place.save(1)
    text = (s3_place.folder / name / "manifest.json").read_text()
    (s3_place.folder / name / "manifest.json").write_text(text.replace(SHARD, "../../" + SHARD))
    assert main(["checkpoints", "verify", s3_place.name]) == 1
    assert "damaged" in capsys.readouterr().out

"""Folders that no save of ours has left: each is skipped with one line, or refused by name."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

from stoker.checkpoints.checksums import checksums_of
from stoker.checkpoints.manifest import FORMAT, ManifestInvalid, _seal, parse_manifest
from stoker.checkpoints.session import open_session
from stoker.contract.job import read_job
from stoker.errors import CheckpointMismatch

OLDER, NEWER = "000001-step-2", "000002-step-2"


class Folder:
    """A sound checkpoint, and a copy of it to be changed, which is newer."""

    def __init__(self, path):
        self.path = path
        with self.open() as (session, model, optimizer):
            for _ in session.batches([1, 2]):
                model.weight.sum().backward()
                optimizer.step()
        shutil.copytree(path / OLDER, path / NEWER)

    def open(self):
        torch.manual_seed(0)
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        return _Opened(
            open_session(
                read_job(),
                folder=self.path,
                model=model,
                optimizer=optimizer,
                # Columns first, and so with strides of its own.
                extra={"x": torch.ones(3, 2).T},
            ),
            model,
            optimizer,
        )

    def change(self, *, manifest=None, head=None, rest=None):
        """Changes what the newer one says; sizes, checksums and seal fit."""
        folder = self.path / NEWER
        fields = json.loads((folder / "manifest.json").read_text())
        shard = (folder / "rank00000.safetensors").read_bytes()
        size_bytes = int.from_bytes(shard[:8], "little")
        header = json.loads(shard[8 : 8 + size_bytes])
        state = json.loads(header["__metadata__"]["stoker"])
        for change, what in ((head, header), (rest, state)):
            if change:
                change(what)
        header["__metadata__"]["stoker"] = json.dumps(state)
        text = json.dumps(header).encode()
        shard = len(text).to_bytes(8, "little") + text + shard[8 + size_bytes :]
        (folder / "rank00000.safetensors").write_bytes(shard)
        fields["shards"][0]["size_bytes"] = len(shard)
        fields["shards"][0]["checksums"] = checksums_of(memoryview(shard), fields["checksum"])
        if manifest:
            manifest(fields)
        (folder / "manifest.json").write_text(sealed(fields))


class _Opened:
    def __init__(self, session, model, optimizer):
        self._session, self._parts = session, (model, optimizer)

    def __enter__(self):
        return self._session.__enter__(), *self._parts

    def __exit__(self, *error):
        return self._session.__exit__(*error)


def sealed(fields):
    fields = {name: value for name, value in fields.items() if name != "seal"}
    return json.dumps({**fields, "seal": _seal(fields)})


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "checkpoints")


def put(*path_and_value):
    *path, last, value = path_and_value

    def change(what):
        for name in path:
            what = what[name]
        if value is ...:
            del what[last]
        else:
            what[last] = value

    return change


STATE = ("state", "model", "map", "weight")
HOSTILE = {
    "no loop": {"rest": put("state", "loop", ...)},
    "no state": {"rest": put("state", ...)},
    "state is a list": {"rest": put("state", [])},
    "no random state": {"rest": put("own", "random", ...)},
    "random state is null": {"rest": put("own", "random", None)},
    "random state of another kind": {"rest": put("own", "random", {"map": {"python": 1}})},
    "random state of the epoch": {"rest": put("own", "epoch_start", {"map": {}})},
    "counter that is a text": {"rest": put("state", "loop", "map", "step", "7")},
    "negative counter": {"rest": put("state", "loop", "map", "batch", -1)},
    "best that is a list": {"rest": put("state", "loop", "map", "best", [])},
    "unknown kind of value": {"rest": put(*STATE, {"surprise": 1})},
    "tensor that is not there": {"rest": put(*STATE, {"tensor": "nowhere"})},
    "tensor without a name": {"rest": put(*STATE, {"tensor": {}})},
    "strides of a terabyte": {"rest": put("state", "extra", "map", "x", "stride", [1 << 40, 1])},
    "strides that overlap": {"rest": put("state", "extra", "map", "x", "stride", [0, 0])},
    "deep nesting": {"rest": put(*STATE, json.loads("[" * 900 + "]" * 900))},
    "bytes that torch cannot load": {"rest": put(*STATE, {"torch": "model.weight"})},
    "shape of a terabyte": {"head": put("model.weight", "shape", [1 << 40])},
    "negative shape": {"head": put("model.weight", "shape", [-2, -2])},
    "shape of texts": {"head": put("model.weight", "shape", ["2", "2"])},
    "place outside": {"head": put("model.weight", "data_offsets", [1 << 40, (1 << 40) + 16])},
    "one offset": {"head": put("model.weight", "data_offsets", [0])},
    "unknown type": {"head": put("model.weight", "dtype", "F128")},
    "entry that is a number": {"head": put("model.weight", 7)},
    "no file of the first rank": {"manifest": put("shards", [])},
    "file of another name": {"manifest": put("shards", 0, "name", "model.bin")},
    "file name with a zero": {"manifest": put("shards", 0, "name", "rank\0.safetensors")},
    "sharded without pieces": {
        "manifest": put("is_sharded", True),
        "rest": put("pieces", {"model.weight": {"offsets": [0, 0], "whole": [1 << 40, 2]}}),
    },
}


@pytest.mark.parametrize("changes", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_checkpoint_is_passed_over_with_one_line(folder, changes, capfd):
    folder.change(**changes)
    with folder.open() as (session, *_):
        assert session.resumed_from.name == OLDER
    told = [line for line in capfd.readouterr().err.splitlines() if "is skipped" in line]
    assert len(told) == 1
    assert told[0].startswith(f"[stoker] warning: checkpoint {NEWER} is skipped: ")
    assert "KeyError" not in told[0]


def test_a_state_that_no_part_takes_is_refused_by_the_parts_name(folder):
    folder.change(rest=put("state", "optimizer", {"map": {"param_groups": 1, "state": []}}))
    with pytest.raises(CheckpointMismatch, match="does not fit optimizer"), folder.open():
        pass


def test_more_batches_than_the_loader_has_end_the_epoch(folder):
    folder.change(rest=put("state", "loop", "map", "batch", 1 << 60))
    with folder.open() as (session, *_):
        assert session.resumed_from.name == NEWER
        assert list(session.batches(range(3))) == []


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("step", "7", "step is '7'"),
        ("step", True, "step is True"),
        ("epoch", -1, "epoch is -1"),
        ("world_size", 1 << 64, "world_size is 18446744073709551616"),
        ("checksum", None, "checksum is None"),
        ("config", {"lr": 0.1}, "lr is 0.1"),
        ("metric", {"value": "high"}, "value is 'high'"),
        ("metric", {"value": 1.0, "mode": "best"}, "neither max nor min"),
        ("metric", {"mode": "max"}, "'value' is missing"),
        ("shards", [7], r"\[7\] was found, but a list of dict is expected"),
        ("shards", [{"name": "rank00000.safetensors"}], "'size_bytes' is missing"),
        ("parts", [1], "a list of str is expected"),
        ("surprise", 1, "surprise is 1"),
    ],
)
def test_a_manifest_with_a_field_of_another_type_is_invalid(field, value, reason):
    fields = {
        **{"step": 1, "epoch": 0, "batch": 1, "world_size": 1, "checksum": "crc32"},
        **{"shards": [], "format": FORMAT, field: value},
    }
    with pytest.raises(ManifestInvalid, match=reason):
        parse_manifest(sealed(fields))

"""Where the counting of steps goes on: what is a checkpoint, and when it is looked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from stoker.debugging.hook import resume
from stoker.debugging.hook.attach import Place, attach
from stoker.debugging.hook.request import read_request
from stoker.debugging.hook.resume import CheckpointWatch, Counts, read_counts
from stoker.debugging.tensors.saved_tensors import SavedTensors

from .trainings import Net, fit, plain_loss

ALL = read_request("collections=all every=1")


@pytest.fixture
def clock(monkeypatch):
    """Seconds, which go by as a test says."""
    now = [100.0]
    monkeypatch.setattr(resume, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def at(step: int) -> Callable[[], Counts]:
    return lambda: Counts(step=step, mode_steps={"TRAIN": step})


def note(watch: CheckpointWatch, step: int, **options: bool) -> bool:
    write = watch.note(at(step), **options)
    if write is not None:
        write()
    return write is not None


def test_a_draft_is_not_a_checkpoint_until_it_has_its_name(tmp_path, clock):
    watch = CheckpointWatch(str(tmp_path))
    draft = tmp_path / "stoker-1.sagemaker-ignore"
    draft.mkdir()
    for step in range(3):
        (draft / f"{step}.bin").write_bytes(b"x")
        (tmp_path / "single.pt.sagemaker-ignore").write_bytes(b"x" * step)
        clock[0] += 2
        assert not note(watch, step)
    draft.rename(tmp_path / "stoker-1")
    clock[0] += 2
    assert note(watch, 3)
    assert read_counts(str(tmp_path)).step == 3
    clock[0] += 2
    assert not note(watch, 4)  # not for the file that it wrote itself


def test_it_looks_once_a_second_and_at_the_end(tmp_path, clock, monkeypatch):
    watch = CheckpointWatch(str(tmp_path))
    looks = []
    look = resume._changed_at
    monkeypatch.setattr(resume, "_changed_at", lambda path: looks.append(path) or look(path))
    for step in range(1000):
        (tmp_path / "model.pt").write_bytes(b"x" * step)
        clock[0] += 0.01
        note(watch, step)
    assert len(looks) < 200
    states = json.loads((tmp_path / "metadata.json").read_text())
    assert len(states) in (9, 10)
    (tmp_path / "model.pt").write_bytes(b"")
    assert not note(watch, 1000)
    assert note(watch, 1000, is_last=True)
    assert read_counts(str(tmp_path)).step == 1000


@pytest.mark.parametrize("name", ["model.pt", "run/step-2/model.pt"])
def test_checkpoints_are_seen_wherever_they_are_and_gone_ones_do_not_count(tmp_path, clock, name):
    old = tmp_path / "run/step-1/model.pt"
    old.parent.mkdir(parents=True)
    old.write_bytes(b"")
    watch = CheckpointWatch(str(tmp_path))
    new: Path = tmp_path / name
    new.parent.mkdir(exist_ok=True)
    new.write_bytes(b"")
    clock[0] += 2
    assert note(watch, 7)
    old.unlink()
    clock[0] += 2
    assert not note(watch, 8)


def test_steps_continue_after_an_interruption(tmp_path, monkeypatch):
    monkeypatch.setattr(resume, "_LOOK_SECONDS", 0.0)
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    place = Place(checkpoint_dir=str(checkpoints))
    model = Net()
    with attach(ALL, tmp_path / "first", place=place):
        fit(model, plain_loss, steps=3)
        torch.save(model.state_dict(), checkpoints / "model.pt")
        fit(model, plain_loss, steps=2)  # lost with the machine
    (state,) = json.loads((checkpoints / "metadata.json").read_text())
    assert state["latest-global-step-seen"] == 2
    with attach(ALL, tmp_path / "second", place=place):
        fit(model, plain_loss, steps=2)
        torch.save(model.state_dict(), checkpoints / "model.pt")  # the same name and size
        fit(model, plain_loss, steps=1)
    assert list(SavedTensors(tmp_path / "second").steps()) == [3, 4, 5]
    with attach(ALL, tmp_path / "third", place=place):
        fit(model, plain_loss, steps=1)
    assert list(SavedTensors(tmp_path / "third").steps()) == [5]


def test_a_count_that_cannot_be_kept_is_one_warning(tmp_path, monkeypatch, capsys):
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(resume, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(resume, "write_atomically", fail)
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    model = Net()
    with attach(ALL, tmp_path / "tensors", place=Place(checkpoint_dir=str(checkpoints))) as hook:
        for number in range(4):
            (checkpoints / f"{number}.pt").write_bytes(b"")
            fit(model, plain_loss, steps=1)
            hook.flush()
    assert list(SavedTensors(tmp_path / "tensors").steps()) == [0, 1, 2, 3]
    error = capsys.readouterr().err
    assert error.count("[stoker] warning") == error.count("will not know its step: No space") == 1

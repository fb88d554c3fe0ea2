"""Several that save in one folder: at a time, and one after the other."""

from __future__ import annotations

import pickle

from torch import nn
from torch.nn import functional as F

from stoker.debugging.hook.attach import Place, attach
from stoker.debugging.hook.request import read_request
from stoker.debugging.tensors.saved_tensors import SavedTensors

from .trainings import Net, fit, plain_loss

ALL = read_request("collections=all every=1")


class HoldsLoss(Net):
    def __init__(self) -> None:
        super().__init__()
        self.loss_of = F.cross_entropy


def test_a_second_process_counts_on_where_the_first_has_ended(tmp_path, capsys):
    with attach(ALL, tmp_path):
        fit(Net(), plain_loss, steps=2)
    assert not list(tmp_path.glob("*.lock*"))
    with attach(read_request("collections=weights every=1"), tmp_path) as hook:
        fit(nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), plain_loss, steps=2)
        hook.flush()
        assert not SavedTensors(tmp_path).has_ended
    assert "earlier process, up to 1" in capsys.readouterr().err
    saved = SavedTensors(tmp_path)
    assert [(step, saved.at(step).mode_step) for step in saved.steps()] == [
        *((0, 0), (1, 1), (2, 2), (3, 3)),
    ]
    names = saved.collections["weights"].tensor_names
    assert {"Net_fc.weight", "Sequential_1.weight"} <= set(names)
    assert saved.has_ended


def test_of_two_at_a_time_the_first_saves(tmp_path, capsys):
    with attach(ALL, tmp_path):
        fit(Net(), plain_loss, steps=1)
        with attach(ALL, tmp_path):
            fit(Net(), plain_loss, steps=1)
        assert capsys.readouterr().err.count("this one saves none") == 1
        fit(Net(), plain_loss, steps=1)
    assert list(SavedTensors(tmp_path).steps()) == [0, 1, 2]


def test_all_ranks_continue_from_the_step_of_the_checkpoint(tmp_path):
    config = read_request("collections=weights every=1 workers=all")
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    for run in ("first", "second"):
        for rank in (1, 0):  # the second one writes no state, so its turn is before the first's
            place = Place(rank=rank, ranks=2, checkpoint_dir=str(checkpoints))
            with attach(config, tmp_path / run, place=place):
                model = Net()
                fit(model, plain_loss, steps=2)
                (checkpoints / f"{run}-{rank}.pt").write_bytes(b"")
    assert list(SavedTensors(tmp_path / "first").steps()) == [0, 1]
    assert list(SavedTensors(tmp_path / "second").steps()) == [2, 3]


def test_a_model_that_holds_a_loss_function_is_pickled_after_the_hook_has_gone(tmp_path, capsys):
    (tmp_path / "file").write_text("no folder")
    for folder in (tmp_path / "file", tmp_path / "tensors"):
        with attach(ALL, folder):
            model = HoldsLoss()
            fit(model, lambda m, images, labels: m.loss_of(m(images), labels))
            again = pickle.loads(pickle.dumps(model))
        again = pickle.loads(pickle.dumps(model))
        assert again.loss_of is model.loss_of
    assert "cross_entropy_loss_output_0" in SavedTensors(tmp_path / "tensors").names()

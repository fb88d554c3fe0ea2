"""What goes wrong around the hook stays there; and what it cannot do, it says."""

from __future__ import annotations

import gc
import os
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from stoker.debugging.hook.attach import Place, attach
from stoker.debugging.hook.config import default_config, read_hook_config
from stoker.debugging.hook.losses import is_listened_to
from stoker.debugging.hook.request import read_request
from stoker.debugging.tensors.saved_tensors import SavedTensors
from stoker.metrics.saved_steps import SavedSteps

from .trainings import Net, batch, fit, plain_loss, weights_of

ALL = read_request("collections=all every=1")


def names_at(folder: Path, step: int) -> list[str]:
    return [tensor.name for tensor in SavedTensors(folder).at(step).needed("all")]


def is_off() -> bool:
    return not is_listened_to() and not torch.nn.modules.module._has_any_global_hook()


@pytest.fixture(autouse=True)
def _torch_is_left_as_it_was():
    yield
    assert is_off()


def test_a_fault_is_reported_once_and_training_continues(tmp_path, capsys, monkeypatch):
    torch.manual_seed(0)
    expected = fit(Net(), plain_loss)
    torch.manual_seed(0)
    with attach(ALL, tmp_path) as hook:
        monkeypatch.setattr(hook.capture, "_take_parameters", lambda *_: 1 / 0)
        found = fit(Net(), plain_loss)
        assert is_off()
    assert all(map(torch.equal, expected, found))
    assert capsys.readouterr().err.count("[stoker] warning: ") == 1


def test_a_fault_leaves_the_folder_to_readers_and_to_others(tmp_path, monkeypatch):
    """While the training goes on: readers need not wait, another process may save, memory goes."""
    model = Net()
    with attach(ALL, tmp_path) as hook:
        fit(model, plain_loss, steps=2)
        pool = weakref.ref(hook._recorder._pool)
        hook.flush()
        monkeypatch.setattr(hook.capture, "_take_parameters", lambda *_: 1 / 0)
        fit(model, plain_loss, steps=1)
        hook._wait()
        assert not list(tmp_path.glob("*.lock*"))
        gc.collect()
        assert pool() is None
        saved = SavedTensors(tmp_path)
        assert list(saved.steps()) == [0, 1]
        assert saved.has_ended
        with attach(ALL, tmp_path):
            fit(model, plain_loss, steps=1)
    assert list(SavedTensors(tmp_path).steps()) == [0, 1, 2]


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_step_that_a_signal_interrupts_is_not_saved(tmp_path, monkeypatch, goes_on):
    """A handler of the script's own that calls sys.exit() may run while tensors are copied."""
    copy, calls = torch._foreach_copy_, []

    def interrupted(*given: object) -> None:
        calls.append(given)
        if len(calls) == 3:
            raise SystemExit(143)
        copy(*given)

    monkeypatch.setattr(torch, "_foreach_copy_", interrupted)
    model = Net()
    with attach(read_request("collections=weights every=1"), tmp_path):
        with pytest.raises(SystemExit):
            fit(model, plain_loss, steps=4)
        if goes_on:
            fit(model, plain_loss, steps=1)
    saved = SavedTensors(tmp_path)
    assert list(saved.steps()) == ([0, 1, 3] if goes_on else [0, 1])


def test_a_fault_in_the_backward_pass_is_one_too(tmp_path, capsys, monkeypatch):
    from stoker.debugging.hook.open_step import OpenStep

    with attach(ALL, tmp_path):
        monkeypatch.setattr(OpenStep, "take", lambda *_: 1 / 0)
        fit(Net(), plain_loss)
    error = capsys.readouterr().err
    assert error.count("[stoker] warning: ") == 1
    assert "ZeroDivisionError" in error


def test_a_folder_that_cannot_be_written_is_told_once(tmp_path, capsys):
    (tmp_path / "file").write_text("no folder")
    with attach(ALL, tmp_path / "file") as hook:
        model = Net()
        fit(model, plain_loss, steps=2)
        hook.flush()
        fit(model, plain_loss, steps=1)
        assert is_off()
    error = capsys.readouterr().err
    assert error.count("cannot be saved") == 1
    assert error.count("is off now") == 1


def test_a_relative_folder_is_that_of_the_moment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    model = Net()
    with attach(ALL, "tensors"):
        fit(model, plain_loss, steps=1)
        os.chdir("elsewhere")
        fit(model, plain_loss, steps=1)
    assert list(SavedTensors(tmp_path / "tensors").steps()) == [0, 1]
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_hook_of_smdebug_comes_first(tmp_path, capsys):
    smd = pytest.importorskip("smdebug.pytorch")
    model, criterion = Net(), nn.CrossEntropyLoss()
    with attach(ALL, tmp_path / "ours"):
        hook = smd.Hook(str(tmp_path / "stock"), save_config=smd.SaveConfig(save_interval=1))
        hook.register_module(model)
        hook.register_loss(criterion)
        fit(model, lambda m, images, labels: criterion(m(images), labels))
        assert is_off()
        hook.close()
        smd.del_hook()
    assert list(SavedTensors(tmp_path / "stock").steps()) == [0, 1, 2]
    assert not (tmp_path / "ours").exists()
    assert capsys.readouterr().err.count("nothing is saved twice") == 1


def test_processes_that_do_not_save_leave_nothing(tmp_path, capsys):
    with attach(ALL, tmp_path / "tensors", place=Place(rank=1, ranks=2)):
        fit(Net(), plain_loss)
    assert not (tmp_path / "tensors").exists()
    assert capsys.readouterr().err == ""


def test_a_forked_child_writes_nothing_of_its_parents(tmp_path):
    with attach(ALL, tmp_path):
        model = Net()
        fit(model, plain_loss, steps=1)
        child = os.fork()
        if not child:
            fit(model, plain_loss, steps=2)
            os._exit(0 if is_off() else 1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
    assert list(SavedTensors(tmp_path).steps()) == [0]


def test_thousands_of_tensors_are_one_step(tmp_path):
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3), *(nn.Linear(3, 3) for _ in range(800)))
    with attach(read_request("collections=weights,biases,gradients every=1"), tmp_path):
        fit(model, plain_loss, steps=2)
    saved = SavedTensors(tmp_path)
    found = {tensor.name: tensor for tensor in saved.at(1).needed("all")}
    assert len(found) == 1 + 4 * 801
    state = model.state_dict()
    assert found["Sequential_801.weight"].value().shape == state["801.weight"].shape


def test_values_are_those_of_the_moment(tmp_path):
    """Weights before the step, gradients of this pass, outputs before they are changed."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3), nn.ReLU(inplace=True))
    seen = []
    with attach(ALL, tmp_path):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            images, labels = batch()
            before = model[1].weight.detach().clone()
            plain_loss(model, images, labels).backward()  # gradients are added up
            seen.append((before, model[1].weight.grad.clone(), images))
            optimizer.step()
    saved = SavedTensors(tmp_path)
    total = np.zeros((3, 64), np.float32)
    for step, (weight, gradient, images) in enumerate(seen):
        found = {t.name: t.value() for t in saved.at(step).needed("all")}
        np.testing.assert_array_equal(found["Sequential_1.weight"], weight)
        np.testing.assert_array_equal(found["Sequential_input_0"], images)
        total += found["gradient/Sequential_1.weight"]
        np.testing.assert_array_equal(total, gradient)
        assert found["2_output_0"].min() == 0
        assert found["1_output_0"].min() < 0


def test_what_a_tensor_is_is_written_next_to_it(tmp_path):
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.free, self.fixed = nn.Linear(64, 3), nn.Linear(3, 3).requires_grad_(False)
            self.act = nn.ReLU()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.act(self.fixed(self.free(x.flatten(1))))

    with attach(ALL, tmp_path):
        fit(Two(), plain_loss, steps=1)
    of = SavedTensors(tmp_path).descriptions
    assert of["act_output_0"].module_class == "ReLU"
    assert of["Two_fixed.weight"].is_frozen
    assert not of["Two_free.weight"].is_frozen
    assert of["Two_input_0"].is_model
    assert of["cross_entropy_loss_input_1"].is_of_loss
    assert of["cross_entropy_loss_output_0"].kind == "loss"
    assert of["cross_entropy_loss_output_0"].module_class == "cross_entropy"
    assert of["gradient/Two_free.bias"].kind == "gradient"


def test_an_error_in_a_loss_does_not_hide_the_losses_after_it(tmp_path):
    class BadLoss(nn.Module):
        def forward(self, scores: torch.Tensor) -> torch.Tensor:
            raise ZeroDivisionError

    with attach(default_config(every=1), tmp_path):
        model = Net()
        with pytest.raises(ZeroDivisionError):
            BadLoss()(model(batch()[0]))
        fit(model, plain_loss, steps=2)
    assert names_at(tmp_path, 2) == ["cross_entropy_loss_output_0"]


def test_models_of_one_class_do_not_share_names(tmp_path):
    with attach(ALL, tmp_path):
        one, other = nn.Linear(64, 64), nn.Linear(64, 3)
        both = nn.ModuleList([one, other])
        fit(both, lambda m, images, labels: F.cross_entropy(m[1](m[0](images.flatten(1))), labels))
    saved = SavedTensors(tmp_path)
    assert list(saved.steps()) == [0, 1, 2]  # both belong to one step
    found = {t.name: t.value().shape for t in saved.at(2).needed("all")}
    assert found["Linear_weight"] == (64, 64)
    assert found["Linear_1_weight"] == (3, 64)
    assert found["gradient/Linear_1_weight"] == (3, 64)


def test_whole_models_can_be_pickled_while_the_hook_is_on(tmp_path):
    with attach(ALL, tmp_path / "tensors"):
        model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
        fit(model, plain_loss)
        torch.save(model, tmp_path / "model.pt")
    again = torch.load(tmp_path / "model.pt", weights_only=False)
    assert all(map(torch.equal, weights_of(again), weights_of(model)))


def test_shapes_and_tensors_of_all_types_are_saved(tmp_path):
    class Types(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            kinds = [torch.bfloat16, torch.float8_e4m3fn, torch.float16, torch.float64]
            kinds += [torch.int8, torch.bool, torch.complex64, torch.int64]
            made = [x.to(kind) for kind in kinds]
            return [*made, x[:0], x.sum(), x.to_sparse(), x.t().contiguous().t()]

    values = torch.tensor([[0.0, 1.0, -1.5], [float("nan"), float("inf"), 2.0]])
    config = read_hook_config({"HookParameters": {"save_all": "1", "save_interval": "1"}})
    with attach(config, tmp_path):
        results = Types()(values)
    found = {t.name: t.value() for t in SavedTensors(tmp_path).at(0).needed("all")}
    for number, result in enumerate(results):
        name = f"Types_output_{number}"
        if not result.numel():
            assert found[name].shape == (0, 3)
            continue
        dense = result.to_dense() if result.is_sparse else result
        wide = dense.float() if number < 2 else dense
        np.testing.assert_array_equal(found[name], wide.detach().numpy())


def test_tensors_are_saved_where_tensorboard_cannot_show_them(tmp_path, capsys):
    class WaveLoss(nn.Module):
        def forward(self, scores: torch.Tensor, labels: torch.Tensor) -> list[torch.Tensor]:
            return [F.cross_entropy(scores, labels), scores.sum() * 1j]

    criterion = WaveLoss()
    with attach(ALL, tmp_path / "tensors", sink=SavedSteps(str(tmp_path / "board"))):
        fit(Net(), lambda model, images, labels: criterion(model(images), labels)[0])
    assert list(SavedTensors(tmp_path / "tensors").steps()) == [0, 1, 2]
    error = capsys.readouterr().err
    assert error.count("[stoker] warning: ") == error.count("TensorBoard gets none") == 1


def test_an_output_that_cannot_tell_its_loss_has_none(tmp_path, capsys):
    class Answer:
        @property
        def loss(self) -> torch.Tensor:
            raise RuntimeError("there were no labels")

    class Asked(Net):
        def forward(self, x: torch.Tensor) -> Answer:
            self.scores = super().forward(x)
            return Answer()

    def loss_of(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        model(images)
        return F.cross_entropy(model.scores, labels)

    with attach(ALL, tmp_path):
        fit(Asked(), loss_of)
    assert "gradient/Asked_fc.weight" in names_at(tmp_path, 2)
    assert "[stoker] warning" not in capsys.readouterr().err


def test_a_tensor_that_torch_itself_cannot_copy_is_left_out_alone(tmp_path, capsys):
    class Packs(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.empty(2, dtype=torch.uint4)

    class Packed(Net):
        def __init__(self) -> None:
            super().__init__()
            self.packs = Packs()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.packs(x)
            return super().forward(x)

    with attach(ALL, tmp_path):
        fit(Packed(), plain_loss)
    assert {"gradient/Packed_fc.weight", "packs_input_0"} <= set(names_at(tmp_path, 2))
    assert "packs_output_0" not in names_at(tmp_path, 2)
    assert "[stoker] warning" not in capsys.readouterr().err

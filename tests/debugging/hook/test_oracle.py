"""The same names and values as smdebug's own hook, registered by hand on the same model."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from stoker.debugging.hook.attach import attach
from stoker.debugging.hook.config import read_hook_config
from stoker.debugging.tensors.saved_tensors import SavedTensors

from .trainings import Net, batch, fit

smd = pytest.importorskip("smdebug.pytorch")
# smdebug's reader leaves its files to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

REDUCTIONS = (
    "min,max,mean,std,variance,sum,prod,l1_norm,l2_norm,"
    "abs_min,abs_max,abs_mean,abs_std,abs_variance,abs_sum,abs_prod,abs_l1_norm,abs_l2_norm"
)
EACH = {"save_interval": "1"}
CONFIGS = {
    "nothing": {},
    "nulls": {"HookParameters": None, "CollectionConfigurations": None},
    "everything": {"HookParameters": {"save_all": "True", **EACH}},
    "weights and gradients": {
        "HookParameters": {"save_interval": "2"},
        "CollectionConfigurations": [
            {"CollectionName": "weights"},
            {"CollectionName": "gradients", "CollectionParameters": None},
            {"CollectionName": "biases", "CollectionParameters": {"save_interval": "3"}},
        ],
    },
    "reductions": {
        "HookParameters": {"save_interval": "1", "reductions": "mean"},
        "CollectionConfigurations": [
            {"CollectionName": "weights", "CollectionParameters": {"reductions": REDUCTIONS}},
            {"CollectionName": "gradients"},
        ],
    },
    "modes and limits": {
        "HookParameters": {"train.save_interval": "3", "eval.save_interval": "1"},
        "CollectionConfigurations": [
            {
                "CollectionName": "relu_out",
                "CollectionParameters": {
                    "include_regex": "relu.*output, conv1_input",
                    "start_step": "1",
                    "train.end_step": "4",
                    "save_steps": "0,2",
                },
            },
        ],
    },
    "regexes": {"HookParameters": {"include_regex": "fc,^gradient/Net_norm", **EACH}},
}


@pytest.fixture(autouse=True)
def _quiet():
    logging.getLogger("smdebug").setLevel(logging.ERROR)
    yield
    smd.del_hook()


class Repeats(Net):
    """One module is called three times, and the parameters of another are shared."""

    def __init__(self) -> None:
        super().__init__()
        self.again = nn.Linear(3, 3)
        self.twin = nn.Linear(3, 3)
        self.twin.weight = self.again.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = super().forward(x)
        return self.twin(self.again(self.relu(self.again(self.relu(x)))))


def train(model: nn.Module, criterion: nn.Module, switch: Callable[[str], None]) -> None:
    torch.manual_seed(1)
    for _ in range(2):
        switch("TRAIN")
        model.train()
        fit(model, lambda m, images, labels: criterion(m(images), labels), steps=3)
        switch("EVAL")
        model.eval()
        with torch.no_grad():
            for _ in range(2):
                images, labels = batch()
                criterion(model(images), labels)


def run_stock(config: dict, folder: Path, make: Callable[[], nn.Module]) -> None:
    file = folder.with_suffix(".json")
    file.write_text(json.dumps({**config, "LocalPath": str(folder)}))
    torch.manual_seed(0)
    model, criterion = make(), nn.CrossEntropyLoss()
    hook = smd.Hook.create_from_json_file(str(file))
    hook.register_module(model)
    hook.register_loss(criterion)
    train(model, criterion, lambda mode: hook.set_mode(smd.modes[mode]))
    hook.close()
    smd.del_hook()


def run_ours(config: dict, folder: Path, make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    model, criterion = make(), nn.CrossEntropyLoss()
    with attach(read_hook_config(config), folder):
        train(model, criterion, lambda mode: None)


@pytest.mark.parametrize("make", [Net, Repeats])
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_names_and_values_are_those_of_the_stock_hook(tmp_path, config, make):
    run_stock(config, tmp_path / "stock", make)
    run_ours(config, tmp_path / "ours", make)
    stock, ours = SavedTensors(tmp_path / "stock"), SavedTensors(tmp_path / "ours")
    assert ours.steps() == stock.steps()
    for step in stock.steps():
        expected, got = stock.at(step), ours.at(step)
        assert (got.mode, got.mode_step) == (expected.mode, expected.mode_step)
        assert_same(read_files(tmp_path / "stock", step), read_files(tmp_path / "ours", step))


def read_files(folder: Path, step: int) -> dict[str, np.ndarray]:
    """Everything that smdebug's own reader finds at a step, reductions included."""
    from smdebug.core.tfevent.event_file_reader import EventFileReader

    (file,) = (folder / f"events/{step:012d}").iterdir()
    found = EventFileReader(str(file)).read_tensors()
    return {name: value for name, _, value, _, _ in found}


def assert_same(expected: dict[str, np.ndarray], got: dict[str, np.ndarray]) -> None:
    assert sorted(got) == sorted(expected)
    for name, value in expected.items():
        if name.startswith("smdebug/reductions/"):
            np.testing.assert_allclose(got[name], value, rtol=2e-4, atol=1e-6, err_msg=name)
        else:
            assert got[name].dtype == value.dtype
            np.testing.assert_array_equal(got[name], value, err_msg=name)

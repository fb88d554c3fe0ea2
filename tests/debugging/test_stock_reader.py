"""smdebug's own reader, fixed only so far that it can be imported, reads what our hook writes.

It is the one that rules of the service, and users' notebooks, have. The development environment
holds the fixed one, so this runs in a process whose path begins with the other.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import torch
from torch import nn

from stoker.debugging.hook.attach import attach
from stoker.debugging.hook.config import read_hook_config
from tests.smdebug_wheels import make_wheels

# Those that it knows; what NumPy has no type for is saved as float32.
DTYPES = {
    **{torch.float16: np.float16, torch.float32: np.float32, torch.float64: np.float64},
    **{torch.bfloat16: np.float32, torch.float8_e4m3fn: np.float32},
    **{torch.float8_e5m2: np.float32, torch.int32: np.int32, torch.int64: np.int64},
    **{torch.uint8: np.uint8, torch.bool: np.bool_},
}
READ = """
import sys
import numpy as np
import smdebug
from smdebug.trials import create_trial

folder, result, expected = sys.argv[1:]
assert smdebug.__file__.startswith(expected), smdebug.__file__
trial = create_trial(folder)
np.savez(result, **{name: trial.tensor(name).value(0) for name in trial.tensor_names()})
print(trial.steps(), trial.loaded_all_steps)
"""


class Types(nn.Module):
    """Returns its input as every type of number."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        whole = x.nan_to_num(0, 1, 0).abs()
        return [(x if dtype.is_floating_point else whole).to(dtype) for dtype in DTYPES]


@pytest.fixture(scope="module")
def stock(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stock")
    with zipfile.ZipFile(make_wheels(folder)[1]) as wheel:
        wheel.extractall(folder / "site")
    return folder / "site"


def read_by_stock(stock, folder, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", READ, folder, tmp_path / "read.npz", stock],
        env={
            **os.environ,
            "PYTHONPATH": str(stock),
            "SMDEBUG_TRAINING_END_DELAY_REFRESH": "0",
        },
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "read.npz") as read:
        return done.stdout.splitlines()[-1], dict(read)


def test_every_type_of_number_comes_back_as_it_was(stock, tmp_path):
    values = torch.tensor([[0.0, 1.0, -1.5], [float("nan"), float("inf"), 2.0]])
    config = read_hook_config({"HookParameters": {"save_all": "1", "save_interval": "1"}})
    with attach(config, tmp_path / "tensors"):
        results = Types()(values)
    said, read = read_by_stock(stock, tmp_path / "tensors", tmp_path)
    assert said == "[0] True"
    for number, (dtype, saved) in enumerate(DTYPES.items()):
        value = read[f"Types_output_{number}"]
        assert value.dtype == saved, dtype
        expected = results[number].detach()
        expected = expected.float() if saved is np.float32 else expected
        np.testing.assert_array_equal(value, expected.numpy())


def test_a_training_is_read_with_its_collections(stock, tmp_path):
    torch.manual_seed(0)
    model, criterion = nn.Sequential(nn.Linear(4, 3), nn.ReLU()), nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    config = read_hook_config(
        {
            "HookParameters": {"save_interval": "1"},
            "CollectionConfigurations": [
                {"CollectionName": name} for name in ("losses", "weights", "gradients")
            ],
        }
    )
    with attach(config, tmp_path / "tensors"):
        loss = criterion(model(torch.ones(2, 4)), torch.zeros(2, 3))
        loss.backward()
        gradient = model[0].weight.grad.clone()
        optimizer.step()
    said, read = read_by_stock(stock, tmp_path / "tensors", tmp_path)
    assert said == "[0] True"
    np.testing.assert_array_equal(read["gradient/Sequential_0.weight"], gradient.numpy())
    assert read["MSELoss_output_0"] == loss.item()
    assert read["Sequential_0.weight"].shape == (3, 4)

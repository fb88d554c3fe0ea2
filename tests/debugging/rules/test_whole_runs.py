"""All rules over one run: an ordinary network raises no alarm, and smdebug's own files do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest
import torch
from torch import nn

from stoker.debugging.need import Need
from stoker.debugging.rule import Rule
from stoker.debugging.rules import CATALOGUE
from stoker.debugging.tensors.saved_tensors import SavedTensors
from tests.debugging.rules.memory import fired, judge
from tests.debugging.rules.training import train

pytestmark = pytest.mark.functional

RULES = {
    "AllZero": {"collection_names": "weights,gradients"},
    "DeadRelu": {},
    "ExplodingTensor": {},
    "LossNotDecreasing": {},
    "PoorWeightInitialization": {},
    "SaturatedActivation": {},
    "TensorVariance": {"collection_names": "weights,layers", "max_threshold": "100"},
    "UnchangedTensor": {"collection_names": "weights,biases,gradients"},
    "VanishingGradient": {},
    "WeightUpdateRatio": {},
}


class Together(Rule):
    """What several rules need."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        super().__init__()
        self._rules = rules

    def needs(self) -> Sequence[Need]:
        return list(dict.fromkeys(need for rule in self._rules for need in rule.needs()))


class Net(nn.Module):
    """Convolutions, normalization, dropout, a gate: a bit of everything."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()),
            *(nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU()),
        )
        self.gate = nn.Sequential(nn.Linear(32, 32), nn.Sigmoid())
        self.head = nn.Sequential(nn.Linear(32, 16), nn.Tanh(), nn.Dropout(0.1), nn.Linear(16, 4))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        pooled = self.features(images).mean(dim=(2, 3))
        return self.head(pooled * self.gate(pooled))


def test_an_ordinary_network_raises_no_alarm(tmp_path):
    torch.manual_seed(0)
    labels = torch.arange(64) % 4
    images = torch.randn(64, 3, 8, 8) + torch.randn(4, 3, 1, 1)[labels]
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    rules = [CATALOGUE[name](settings) for name, settings in RULES.items()]
    run = train(
        Together(rules),
        model,
        images,
        labels,
        folder=tmp_path,
        optimizer=optimizer,
        steps=25,
        evaluate_every=6,
    )
    met = {need.collection for need in Together(rules).needs() if run.at(0).needed(need)}
    assert met == {need.collection for need in Together(rules).needs()}
    found = {type(rule).__name__: judge(rule, run) for rule in rules}
    assert found == {name: {} for name in RULES}


BY_SMDEBUG = """
import sys, torch, smdebug.pytorch as smd
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
hook = smd.Hook(
    out_dir=sys.argv[1],
    include_collections=["weights", "gradients", "losses", "mine"],
    save_config=smd.SaveConfig(save_interval=1),
)
hook.get_collection("mine").include("^1_output")
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
nn.init.constant_(model[0].bias, -100.0)
loss = nn.CrossEntropyLoss()
hook.register_module(model)
hook.register_loss(loss)
hook.set_mode(smd.modes.TRAIN)
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
inputs, labels = torch.randn(16, 4), torch.arange(16) % 2
for _ in range(12):
    optimizer.zero_grad()
    loss(model(inputs), labels).backward()
    optimizer.step()
hook.close()
"""


def test_files_that_smdebug_itself_wrote_are_evaluated_alike(tmp_path):
    """No learning rate and no active ReLU; the tensors are not described, so their names tell."""
    folder = tmp_path / "tensors"
    command = [sys.executable, "-c", BY_SMDEBUG, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    run = SavedTensors(folder)
    steps = list(range(12))
    settings = {
        **{name: RULES[name] for name in ("LossNotDecreasing", "VanishingGradient")},
        **{name: {} for name in ("ExplodingTensor", "WeightUpdateRatio", "SaturatedActivation")},
        "AllZero": {"collection_names": "mine"},
        "DeadRelu": {"tensor_regex": "1_output"},
        "UnchangedTensor": {"collection_names": "weights"},
    }
    assert {name: fired(CATALOGUE[name](s), run) for name, s in settings.items()} == {
        "LossNotDecreasing": [10],
        "VanishingGradient": steps[1:],
        "ExplodingTensor": [],
        "WeightUpdateRatio": steps[1:],
        "SaturatedActivation": [],
        "AllZero": steps,
        "DeadRelu": steps,
        "UnchangedTensor": steps[2:],
    }

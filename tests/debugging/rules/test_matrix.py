"""Every sickness judged by every rule: each rule finds its own, and no rule cries without one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import nn

from stoker.debugging.evaluate import evaluate_saved
from stoker.debugging.rules import CATALOGUE
from stoker.debugging.specs import RuleSpec
from stoker.debugging.tensors import SavedTensors
from tests.debugging.rules.joint_training import (
    BATCH,
    Batch,
    Net,
    Sickness,
    make_batch,
    pretrain,
    train_jointly,
)

# As a user would ask for them; nothing is turned down so that a run comes out healthy.
SETTINGS = {
    "AllZero": {"collection_names": "weights,gradients"},
    "CheckInputImages": {},
    "ClassImbalance": {},
    "Confusion": {},
    "DeadRelu": {},
    "ExplodingTensor": {},
    "LossNotDecreasing": {},
    "NLPSequenceRatio": {},
    "Overfit": {},
    "Overtraining": {},
    "PoorWeightInitialization": {},
    "SaturatedActivation": {},
    "StalledTrainingRule": {},
    "TensorVariance": {"collection_names": "weights,layers", "max_threshold": "100"},
    "UnchangedTensor": {"collection_names": "weights,biases,gradients"},
    "VanishingGradient": {},
    "WeightUpdateRatio": {},
}
OWN = "it is about this"
OF_TWO_RUNS = "SimilarAcrossRuns"
"""By itself below: any sick run differs from the healthy one."""
OF_XGBOOST = {"FeatureImportanceOverweight", "TreeDepth"}
"""They look at trees (test_xgboost_rules.py); over a network they end as Errors."""


def scale(layer: nn.Module, factor: float) -> None:
    with torch.no_grad():
        layer.weight.mul_(factor)


def make_uneven(model: Net) -> None:
    """The last activation gets inputs that are too large; what comes out stays the same."""
    scale(model.middle[2], 4)
    scale(model.head, 1 / 4)


def with_nan_at_step_20(batch: Batch, step: int) -> Batch:
    pictures = batch.pictures.clone()
    pictures[0, 0, 0, 0] = torch.nan if step >= 20 else 0.0
    return replace(batch, pictures=pictures)


def padded(batch: Batch, step: int) -> Batch:
    tokens = batch.tokens.clone()
    tokens[:, 2:] = 0
    return replace(batch, tokens=tokens)


def with_rare_classes(batch: Batch, step: int) -> Batch:
    """Of the last two classes two samples each, and more of the others in their place."""
    is_rare = (batch.labels >= 2) & (torch.arange(BATCH) >= 8)
    order = torch.arange(BATCH)
    order[is_rare] = order[batch.labels < 2][: int(is_rare.sum())]
    return Batch(
        pictures=batch.pictures[order], tokens=batch.tokens[order], labels=batch.labels[order]
    )


def without_head(model: Net) -> torch.optim.Optimizer:
    parameters = [p for name, p in model.named_parameters() if not name.startswith("head")]
    return torch.optim.Adam(parameters, lr=2e-3)


NOT_TRAINED = "what gets no gradient does not change"
SICK = {
    "a gradient that does not get through": Sickness(
        model=lambda model: setattr(model, "backward_share", 1e-8),
        fires={
            "VanishingGradient": OWN,
            "PoorWeightInitialization": "a gradient that small is narrow, too",
            "UnchangedTensor": "gradients that small are all the same to numpy.allclose",
        },
    ),
    "a picture with NaN": Sickness(
        data=with_nan_at_step_20,
        fires={
            "ExplodingTensor": OWN,
            "LossNotDecreasing": "the loss is NaN",
            "Confusion": "predictions that are NaN are not right",
        },
    ),
    "a layer that starts too large": Sickness(
        model=make_uneven, fires={"PoorWeightInitialization": OWN}
    ),
    "a Tanh far out": Sickness(
        model=lambda model: scale(model.middle[0], 1e4),
        fires={
            "SaturatedActivation": OWN,
            "TensorVariance": "by weights that are 10,000 times too large",
            "AllZero": "the derivative of Tanh is zero there, and so are the gradients before it",
            "VanishingGradient": "the same",
            "PoorWeightInitialization": "the same",
            "UnchangedTensor": NOT_TRAINED,
            "WeightUpdateRatio": NOT_TRAINED,
        },
    ),
    "a ReLU that is never active": Sickness(
        model=lambda model: nn.init.constant_(model.features[1].bias, -100.0),
        fires={
            "DeadRelu": OWN,
            "AllZero": "nothing gets through, so the gradients before it are zero",
            "VanishingGradient": "the same",
            "PoorWeightInitialization": "the same",
            "UnchangedTensor": NOT_TRAINED,
            "WeightUpdateRatio": NOT_TRAINED,
            "Confusion": "it does not see the pictures",
            "ClassImbalance": "one class is never predicted for the same reason",
        },
    ),
    "a learning rate that is too low": Sickness(
        optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=1e-14),
        fires={
            "WeightUpdateRatio": OWN,
            "UnchangedTensor": OWN,
            "LossNotDecreasing": OWN,
            "PoorWeightInitialization": "the loss gets no better from the start",
            "Overtraining": "neither loss gets any better",
        },
    ),
    "a layer of zeros": Sickness(
        model=lambda model: nn.init.zeros_(model.head.weight),
        fires={
            "AllZero": OWN,
            "PoorWeightInitialization": "the gradients before it are zero",
            "WeightUpdateRatio": "from zero any step is a large one",
            "Confusion": "all classes are the same to it at first",
        },
    ),
    "pictures that were not normalized": Sickness(
        data=lambda batch, step: replace(batch, pictures=50 * batch.pictures),
        fires={"TensorVariance": OWN, "CheckInputImages": "their means are as much larger"},
    ),
    "a layer that the optimizer does not have": Sickness(
        optimizer=without_head, fires={"UnchangedTensor": OWN, "WeightUpdateRatio": OWN}
    ),
    "a learning rate of the wrong sign": Sickness(
        optimizer=lambda model: torch.optim.Adam(model.parameters(), lr=2e-3, maximize=True),
        fires={
            "LossNotDecreasing": OWN,
            "PoorWeightInitialization": "the loss gets no better from the start",
            "Overtraining": "neither loss gets any better",
            "Overfit": "the validation comes after the training it is compared with: it is worse",
            "Confusion": "it unlearns the classes",
        },
    ),
    "a validation that is harder than the training": Sickness(
        validation=lambda batch, step: replace(batch, pictures=0.6 * batch.pictures),
        fires={"Overfit": OWN},
    ),
    "two rare classes": Sickness(
        data=with_rare_classes,
        fires={"ClassImbalance": OWN},
    ),
    "classes taken for one another": Sickness(
        data=lambda batch, step: replace(batch, labels=batch.labels ^ 1),
        fires={"Confusion": OWN, "ClassImbalance": "it is about mispredicted classes, too"},
    ),
    "pictures that are too bright": Sickness(
        data=lambda batch, step: replace(batch, pictures=batch.pictures + 0.5),
        fires={"CheckInputImages": OWN},
    ),
    "sentences that are mostly padding": Sickness(data=padded, fires={"NLPSequenceRatio": OWN}),
    "a training that learns hardly anything": Sickness(
        optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=1e-6),
        fires={
            "Overtraining": OWN,
            "LossNotDecreasing": "it falls by 0.02 % in ten steps",
            "UnchangedTensor": "some weights move by less than 1e-5 of themselves",
        },
    ),
}
HEALTHY = Sickness(fires={})


@dataclass
class Runs:
    """Made when they are asked for, each once."""

    folder: Path
    start: dict[str, torch.Tensor]
    made: dict[str, SavedTensors]

    def of(self, name: str, sickness: Sickness) -> SavedTensors:
        if name not in self.made:
            needs = {n: None for rule in SETTINGS for n in CATALOGUE[rule](SETTINGS[rule]).needs()}
            folder = self.folder / name.replace(" ", "_")
            self.made[name] = train_jointly(sickness, self.start, folder, list(needs))
        return self.made[name]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("runs"), pretrain(), {})


def judge(run: SavedTensors, settings: dict[str, dict[str, str]]) -> dict[str, str]:
    """Rule → how it ends."""
    specs = [RuleSpec(name=name, rule=name, parameters=s) for name, s in settings.items()]
    rules = evaluate_saved(run, specs)
    return {rule.status.name: rule.status.status for rule in rules}


def test_no_rule_of_the_catalogue_is_left_out():
    assert {*SETTINGS, OF_TWO_RUNS, *OF_XGBOOST} == {*CATALOGUE}
    never = {*SETTINGS} - {rule for sickness in SICK.values() for rule in sickness.fires}
    assert never == {"StalledTrainingRule"}  # it is about time: test_stalled_training.py


def test_no_rule_finds_anything_in_the_healthy_training(runs):
    run = runs.of("healthy", HEALTHY)
    assert judge(run, SETTINGS) == dict.fromkeys(SETTINGS, "NoIssuesFound")
    assert judge(run, {name: {} for name in OF_XGBOOST}) == dict.fromkeys(OF_XGBOOST, "Error")


@pytest.mark.parametrize("name", SICK)
def test_a_sickness_is_found_by_the_rules_that_mean_it_and_by_no_other(runs, name):
    sickness = SICK[name]
    ends = judge(runs.of(name, sickness), SETTINGS)
    assert {rule for rule, status in ends.items() if status == "IssuesFound"} == {*sickness.fires}
    assert "Error" not in ends.values()


def test_another_seed_of_the_data_is_a_difference_and_the_same_training_again_is_none(runs):
    healthy = runs.of("healthy", HEALTHY)
    again = runs.of("the healthy one again", HEALTHY)
    other = runs.of("other data", Sickness(fires={}, data=lambda batch, step: make_batch(3)))
    others = {OF_TWO_RUNS: {"other_trials": healthy.folder}}
    assert judge(again, others) == {OF_TWO_RUNS: "NoIssuesFound"}
    assert judge(other, others) == {OF_TWO_RUNS: "IssuesFound"}
    assert judge(other, SETTINGS) == dict.fromkeys(SETTINGS, "NoIssuesFound")

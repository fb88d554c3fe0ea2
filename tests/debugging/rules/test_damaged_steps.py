"""Files that were damaged on their way: a rule misses such a step, and no other."""

from __future__ import annotations

import numpy as np
import pytest

from stoker.debugging.evaluate import evaluate_saved
from stoker.debugging.specs import RuleSpec
from stoker.debugging.tensors import (
    SavedStep,
    SavedTensors,
    write_collections,
    write_descriptions,
    write_step,
)
from stoker.debugging.tensors.layout import events_file, index_file
from tests.debugging.rules.test_every_rule import ROLES, SETTINGS

STEPS = 24
DAMAGED = range(5)
ZEROS = np.zeros((4, 1, 4, 5), np.float32)
FAR = np.full((4, 1, 4, 5), 1e3, np.float32)
GRADIENTS = {"gradient/Net_fc.weight": np.full((4, 5), np.inf, np.float32)}

# Those that remember something, with what they are sick of.
SICK = {
    "UnchangedTensor": ({"collection_names": "weights"}, ZEROS),
    "WeightUpdateRatio": ({}, ZEROS),
    "WeightUpdateRatio of a window": ({"num_steps": "6"}, ZEROS),
    "LossNotDecreasing": ({"num_steps": "2"}, ZEROS),
    "LossNotDecreasing of evaluations": ({"num_steps": "2", "mode": "EVAL"}, ZEROS),
    "LossNotDecreasing of all steps": ({"num_steps": "2", "mode": "GLOBAL"}, ZEROS),
    "DeadRelu": ({}, ZEROS),
    "Overfit": (SETTINGS["Overfit"], ZEROS),
    "Overtraining": (SETTINGS["Overtraining"], ZEROS),
    "PoorWeightInitialization": ({}, ZEROS),
    "SaturatedActivation": ({}, FAR),
    "CheckInputImages": ({"threshold_samples": "20"}, FAR),
    "ExplodingTensor": ({"collection_names": "gradients"}, None),
}


def save(folder, value) -> None:
    """The same in every role at every step; every fourth is an evaluation."""
    write_descriptions(str(folder), "worker_0", ROLES)
    for step in range(STEPS):
        tensors = GRADIENTS if value is None else {role.name: value for role in ROLES}
        is_training = step % 4 != 3 or value is None
        mode, mode_step = ("TRAIN", step - step // 4) if is_training else ("EVAL", step // 4)
        saved = SavedStep(step=step, mode=mode, mode_step=mode_step, tensors=tensors)
        write_step(str(folder), "worker_0", saved)
    write_collections(str(folder), "worker_0", [])


def cut_values(folder, step):
    file = folder / events_file(step, "worker_0")
    file.write_bytes(file.read_bytes()[:40])


def remove_values(folder, step):
    (folder / events_file(step, "worker_0")).unlink()


def cut_index(folder, step):
    """Behind its head, so that the step is seen and then cannot be opened."""
    file = folder / index_file(step, "worker_0")
    file.write_bytes(file.read_bytes()[:100])


def judge(folder, rule, settings):
    spec = RuleSpec(name="it", rule=rule, parameters=settings)
    (watched,) = evaluate_saved(SavedTensors(folder), [spec])
    return watched.status


@pytest.mark.parametrize("damage", [cut_values, remove_values, cut_index])
@pytest.mark.parametrize("case", SICK)
def test_a_damaged_step_makes_no_rule_blind_for_the_rest(tmp_path, case, damage):
    settings, value = SICK[case]
    for step in DAMAGED:
        folder = tmp_path / str(step)
        save(folder, value)
        damage(folder, step)
        status = judge(folder, case.split()[0], settings)
        assert (status.status, step) == ("IssuesFound", step), status.details
        assert status.step != step


@pytest.mark.parametrize("damage", [cut_values, remove_values, cut_index])
def test_several_damaged_steps_in_a_row_do_not_either(tmp_path, damage):
    save(tmp_path, ZEROS)
    for step in DAMAGED:
        damage(tmp_path, step)
    for rule in ("UnchangedTensor", "WeightUpdateRatio", "LossNotDecreasing"):
        assert judge(tmp_path, rule, SICK[rule][0]).status == "IssuesFound"


@pytest.mark.parametrize("damage", [cut_values, remove_values, cut_index])
def test_a_damaged_step_of_the_other_run_is_not_compared(tmp_path, damage):
    save(tmp_path / "here", ZEROS)
    save(tmp_path / "there", FAR)
    for step in DAMAGED:
        damage(tmp_path / "there", step)
    others = {"other_trials": str(tmp_path / "there")}
    status = judge(tmp_path / "here", "SimilarAcrossRuns", others)
    assert (status.status, status.step) == ("IssuesFound", len(DAMAGED))

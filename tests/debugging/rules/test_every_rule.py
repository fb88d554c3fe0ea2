"""What holds for every rule: odd tensors, missing ones, bounded memory, findings one can read."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from stoker.debugging.description import Description
from stoker.debugging.rules import CATALOGUE
from stoker.errors import RuleInvalid
from tests.debugging.rules.memory import Run, judge
from tests.debugging.rules.values import ODD

# With settings by which each may fire early.
SETTINGS = {
    "AllZero": {"collection_names": "all", "threshold": "50"},
    "CheckInputImages": {"threshold_samples": "1"},
    "ClassImbalance": {"samples": "1", "threshold_imbalance": "1"},
    "Confusion": {},
    "DeadRelu": {},
    "ExplodingTensor": {},
    "FeatureImportanceOverweight": {},
    "LossNotDecreasing": {"num_steps": "1"},
    "NLPSequenceRatio": {},
    "Overfit": {"ratio_threshold": "-1"},
    "Overtraining": {"patience_train": "2"},
    "PoorWeightInitialization": {},
    "SaturatedActivation": {},
    "StalledTrainingRule": {},
    "TensorVariance": {"collection_names": "all", "max_threshold": "1", "min_threshold": "0.5"},
    "TreeDepth": {"depth": "0"},
    "UnchangedTensor": {"collection_names": "all"},
    "VanishingGradient": {},
    "WeightUpdateRatio": {},
}
NEEDS_ANOTHER_RUN = {"SimilarAcrossRuns"}
MAY_REFUSE = {"CheckInputImages", "ClassImbalance", "Confusion"}
"""Rules about pictures and classes: a tensor may be neither."""
_LOSS = {"module_class": "CrossEntropyLoss", "is_of_loss": True}
ROLES = [
    Description(name="Net_fc.weight", kind="weight"),
    Description(name="Net_fc.bias", kind="bias"),
    Description(name="gradient/Net_fc.weight", kind="gradient"),
    Description(name="relu_input_0", kind="input", module_class="ReLU"),
    Description(name="relu_output_0", kind="output", module_class="ReLU"),
    Description(name="tanh_input_0", kind="input", module_class="Tanh"),
    Description(name="Net_input_0", kind="input", is_model=True),
    Description(name="words_input_0", kind="input", module="words", module_class="Embedding"),
    Description(name="CrossEntropyLoss_input_0", kind="input", **_LOSS),
    Description(name="CrossEntropyLoss_input_1", kind="input", position=1, **_LOSS),
    Description(name="CrossEntropyLoss_output_0", kind="loss", **_LOSS),
    Description(name="feature_importance/weight/f0"),
    Description(name="trees/Node"),
]
EVERY = pytest.mark.parametrize("name", SETTINGS)


def make(name: str):
    return CATALOGUE[name](SETTINGS[name])


def run_of(value, *, steps: int = 12) -> Run:
    """The same value in every role, at every step; every fourth is of the mode EVAL."""
    run = Run(descriptions=ROLES)
    for step in range(steps):
        mode = "EVAL" if step % 4 == 3 else "TRAIN"
        run.save(step, {role.name: value for role in ROLES}, mode=mode)
    return run


def fitting_values(name: str):
    """What no rule refuses: classes and pictures where it is about such, else any numbers."""
    if name in MAY_REFUSE:
        return np.arange(96).reshape(4, 2, 3, 4) % 2
    return np.random.default_rng(0).normal(size=(8, 50)).astype(np.float32)


def judge_or_refuse(name: str, run: Run):
    """The findings, and why the rule cannot be about such tensors."""
    try:
        return judge(make(name), run), None
    except RuleInvalid as error:
        return {}, error


def test_no_rule_of_the_catalogue_is_left_out():
    assert {*SETTINGS, *NEEDS_ANOTHER_RUN} == {*CATALOGUE}


@EVERY
@pytest.mark.parametrize("odd", ODD)
def test_odd_tensors_are_evaluated_passed_over_or_refused_with_a_reason(name, odd):
    found, refusal = judge_or_refuse(name, run_of(ODD[odd]))
    if refusal is not None:
        assert name in MAY_REFUSE
        assert any(role.name in refusal.message for role in ROLES)
        assert refusal.fix
    for step, finding in found.items():
        assert f"step {step}" in finding.message
        assert "\n" not in finding.message
        assert finding.tensor in {"", *(role.name for role in ROLES)}
        assert finding.hint
        assert all(isinstance(number, int | float) for number in finding.values.values())


@EVERY
def test_a_tensor_of_zeros_in_every_role_is_what_each_rule_is_about_or_not(name):
    fires = {
        *("AllZero", "DeadRelu", "LossNotDecreasing", "NLPSequenceRatio", "Overfit"),
        *("Overtraining", "PoorWeightInitialization", "TensorVariance"),
        *("UnchangedTensor", "VanishingGradient", "WeightUpdateRatio"),
    }
    assert bool(judge(make(name), run_of(np.zeros((4, 1, 4, 5))))) == (name in fires)


@EVERY
def test_steps_without_its_tensors_say_nothing(name):
    run = Run()
    for step in range(3):
        run.save(step, {"x": np.float32(0.7)} if step else {})
    rule = CATALOGUE[name]({**SETTINGS[name], **_only_weights(name)})
    assert judge(rule, run) == {}


def _only_weights(name: str) -> dict[str, str]:
    return {"collection_names": "weights"} if "collection_names" in SETTINGS[name] else {}


@EVERY
def test_fewer_steps_than_it_says_are_too_few(name):
    rule = make(name)
    least = rule.least_steps()
    assert judge(rule, run_of(np.zeros((4, 1, 4, 5)), steps=max(0, least - 1))) == {}


@EVERY
def test_what_it_remembers_does_not_grow_with_the_run(name):
    rule, sizes = make(name), []
    run = run_of(fitting_values(name), steps=60)
    for step in run.steps():
        rule.check(step, run.at(step))
        sizes.append(len(pickle.dumps(vars(rule))))
    assert max(sizes) <= sizes[20] + 64  # the digits of numbers


@EVERY
def test_what_it_needs_is_said_in_the_words_of_the_hook(name):
    needs = make(name).needs()
    assert needs
    assert len({need.collection for need in needs}) == len(needs)
    is_about_time = name == "StalledTrainingRule"  # it judges without any tensor
    assert all(need.is_optional == is_about_time for need in needs)


@EVERY
def test_it_evaluates_by_what_it_asked_for_alone(name):
    """Where it says that reductions are enough, no value is there."""
    values = fitting_values(name) * (1 if name in MAY_REFUSE else 1e-9)
    whole, reduced = Run(descriptions=ROLES), Run(descriptions=ROLES)
    for step in range(4):
        for role in ROLES:
            tensors = {role.name: values * (step + 1)}
            whole.save(step, tensors)
            for need in make(name).needs():
                if need.matches(role):
                    reduced.save(step, tensors, reductions=need.reductions)
    by_numbers, by_values = judge(make(name), reduced), judge(make(name), whole)
    assert list(by_numbers) == list(by_values)
    for step, finding in by_values.items():
        # The hook adds up in single precision.
        assert by_numbers[step].values == pytest.approx(finding.values, rel=1e-4)
        assert by_numbers[step].tensor == finding.tensor

"""Rules of smdebug's kind, in both forms, over tensors that our hook saved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from smdebug.core.modes import ModeKeys
from smdebug.exceptions import (
    InsufficientInformationForRuleInvocation,
    NoMoreProfilerData,
    RuleEvaluationConditionMet,
    StepUnavailable,
)
from smdebug.rules.rule import Rule as SmdebugBase
from smdebug.rules.rule_invoker import invoke_rule
from smdebug.trials import create_trial
from torch import nn

from stoker.debugging.hook.attach import attach
from stoker.debugging.hook.config import default_config
from stoker.debugging.rules.smdebug_rule import adapt_smdebug_rule
from stoker.debugging.tensors import SavedStep, SavedTensors, write_collections, write_step
from stoker.debugging.tensors.layout import events_file
from stoker.errors import RuleInvalid, TensorsUnreadable
from tests.debugging.rules.memory import fired, judge


class CustomGradientRule(SmdebugBase):
    """The guide's own sample, with its documented constructor."""

    def __init__(self, base_trial, threshold=10.0):
        super().__init__(base_trial)
        self.threshold = float(threshold)

    def invoke_at_step(self, step):
        for name in self.base_trial.tensor_names(collection="gradients"):
            mean = self.base_trial.tensor(name).reduction_value(step, "mean", abs=True)
            if mean > self.threshold:
                return True
        return False


class WithActions(SmdebugBase):
    """The form that smdebug 1.0.34 wants, with the tensors it requires."""

    def __init__(self, base_trial, action_str, threshold, other_trials=None):
        super().__init__(base_trial, action_str, other_trials)
        self.threshold = float(threshold)

    def set_required_tensors(self, step):
        self.req_tensors.add("w", steps=[step])

    def invoke_at_step(self, step):
        (tensor,) = self.req_tensors.get()
        return tensor.value(step).max() > self.threshold


class ComparesRuns(SmdebugBase):
    def __init__(self, base_trial, other_trials=None):
        super().__init__(base_trial, "", other_trials)

    def invoke_at_step(self, step):
        values = [trial.tensor("w").value(step) for trial in self.trials]
        return not np.array_equal(*values)


def save(folder, *values: float | None, workers: int = 1) -> SavedTensors:
    """A tensor w with a value at each step; None for a step that is not saved."""
    for step, value in enumerate(values):
        if value is not None:
            tensors = {"w": np.array([value, 0.0])}
            write_step(
                str(folder),
                "worker_0",
                SavedStep(step=step, mode="TRAIN", mode_step=step, tensors=tensors),
            )
    write_collections(str(folder), "worker_0", [], num_workers=workers)
    return SavedTensors(folder)


def train(folder, lr: float) -> SavedTensors:
    torch.manual_seed(0)
    inputs, model, loss = torch.randn(16, 4), nn.Linear(4, 1), nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    with attach(default_config("gradients", every=1), folder):
        for _ in range(8):
            optimizer.zero_grad()
            loss(model(inputs), inputs.sum(dim=1, keepdim=True)).backward()
            optimizer.step()
    return SavedTensors(folder)


def test_the_guides_sample_fires_on_a_training_that_explodes_where_smdebug_says_so(tmp_path):
    run = train(tmp_path, lr=3.0)
    found = judge(adapt_smdebug_rule(CustomGradientRule)({"threshold": "30"}), run)
    assert found
    assert min(found) > 0
    first = CustomGradientRule(create_trial(str(tmp_path)), threshold="30")
    with pytest.raises(RuleEvaluationConditionMet) as met:
        invoke_rule(first, raise_eval_cond=True)
    assert met.value.step == min(found)
    assert found[min(found)].message == str(met.value)


class OpensAFile(SmdebugBase):
    """Has a fault of its own."""

    def __init__(self, base_trial):
        super().__init__(base_trial)

    def invoke_at_step(self, step):
        Path("/nowhere/thresholds.json").read_text()


def test_a_file_that_smdebug_cannot_read_is_not_a_fault_of_the_rule_and_its_own_is(tmp_path):
    run = save(tmp_path, 1.0, 2.0)
    rule = adapt_smdebug_rule(WithActions)({"threshold": "10"})
    assert rule.check(0, run.at(0)) is None
    file = tmp_path / events_file(1, "worker_0")
    file.unlink()
    file.mkdir()  # smdebug waits minutes for one that is missing
    with pytest.raises(TensorsUnreadable, match="smdebug cannot read the step"):
        rule.check(1, run.at(1))
    with pytest.raises(FileNotFoundError):
        adapt_smdebug_rule(OpensAFile)().check(0, run.at(0))


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'{"_meta": {}}'])
def test_damaged_collections_are_waited_for(tmp_path, content):
    run = save(tmp_path, 20.0)
    file = next(tmp_path.glob("collections/*/*.json"))
    whole = file.read_bytes()
    file.write_bytes(content)
    rule = adapt_smdebug_rule(WithActions)({"threshold": "10"})
    assert rule.check(0, run.at(0)) is None
    assert "not each worker has written its collections" in rule.lacks()
    file.write_bytes(whole)
    assert rule.check(0, run.at(0)) is not None


def test_the_guides_sample_does_not_fire_on_a_healthy_training(tmp_path):
    run = train(tmp_path, lr=0.01)
    assert len(run.steps()) == 8
    assert fired(adapt_smdebug_rule(CustomGradientRule)(), run) == []


def test_the_other_form_gets_its_action_text_its_tensors_and_texts_as_parameters(tmp_path):
    run = save(tmp_path, 1.0, 5.0, None, 2.0, 7.0)
    rule = adapt_smdebug_rule(WithActions)({"threshold": "3.5"})
    assert fired(rule, run) == [1, 4]
    assert rule.lacks() == ""


def test_other_runs_are_handed_over_as_trials(tmp_path):
    run = save(tmp_path / "a", 1.0, 2.0, 3.0)
    save(tmp_path / "b", 1.0, 9.0)
    rule = adapt_smdebug_rule(ComparesRuns)({"other_trials": str(tmp_path / "b")})
    assert fired(rule, run) == [1]  # step 2 is not there: not a difference, and no wait


def test_new_steps_are_seen_as_they_come(tmp_path):
    rule = adapt_smdebug_rule(WithActions)({"threshold": "3"})
    assert fired(rule, save(tmp_path, 1.0)) == []
    assert fired(rule, save(tmp_path, 1.0, 4.0)) == [1]


def test_while_a_worker_has_written_nothing_yet_it_does_not_wait(tmp_path):
    rule = adapt_smdebug_rule(WithActions)({"threshold": "3"})
    run = save(tmp_path, 4.0, workers=1)
    save(tmp_path, workers=2)
    assert rule.check(0, run.at(0)) is None
    assert str(tmp_path) in rule.lacks()
    write_collections(str(tmp_path), "worker_1", [], num_workers=1)
    save(tmp_path, workers=1)
    assert rule.check(0, run.at(0)) is not None


class Raises(SmdebugBase):
    error: Exception

    def __init__(self, base_trial):
        super().__init__(base_trial)

    def invoke_at_step(self, step):
        if step == 1:
            raise self.error
        return step == 2


@pytest.mark.parametrize(
    ("error", "steps"),
    [
        (StepUnavailable(1, ModeKeys.GLOBAL), [2]),
        (NoMoreProfilerData(1), []),
        (RuleEvaluationConditionMet("Raises", 1), [1, 2]),
        (RuleEvaluationConditionMet("Raises", 1, end_of_rule=True), [1]),
    ],
)
def test_what_a_rule_raises_means_what_it_means_to_invoke_rule(tmp_path, error, steps):
    cls = adapt_smdebug_rule(type("Raises", (Raises,), {"error": error}))
    assert fired(cls(), save(tmp_path, 0.0, 0.0, 0.0)) == steps


@pytest.mark.parametrize(
    "error", [InsufficientInformationForRuleInvocation("Raises", "none"), ZeroDivisionError("0")]
)
def test_any_other_error_is_the_rules_own(tmp_path, error):
    cls = adapt_smdebug_rule(type("Raises", (Raises,), {"error": error}))
    with pytest.raises(type(error)):
        fired(cls(), save(tmp_path, 0.0, 0.0))


def test_tensors_that_are_not_there_are_not_an_error(tmp_path):
    class Asks(SmdebugBase):
        def __init__(self, base_trial):
            super().__init__(base_trial)

        def invoke_at_step(self, step):
            return self.base_trial.tensor("nowhere").value(step) > 0

    rule = adapt_smdebug_rule(Asks)()
    assert rule.lacks() == ""
    assert fired(rule, save(tmp_path, 1.0)) == []
    assert rule.lacks() == "Tensor nowhere was not saved."  # it has judged nothing


def test_parameters_come_from_the_constructor():
    declared = adapt_smdebug_rule(WithActions).parameters
    assert list(declared) == ["threshold"]
    assert declared["threshold"].help == "of the constructor; must be set"
    assert adapt_smdebug_rule(WithActions)({"threshold": "1"}).needs() == []


@pytest.mark.parametrize(
    ("rule", "settings", "message"),
    [
        (CustomGradientRule, {"treshold": "1"}, "CustomGradientRule takes no treshold"),
        (CustomGradientRule, {"other_trials": "a"}, "takes no other_trials"),
        (WithActions, {}, "the constructor of WithActions wants threshold"),
        (WithActions, {"x": "1"}, "takes no x and wants threshold"),
    ],
)
def test_parameters_that_do_not_fit_are_refused_before_any_step(rule, settings, message):
    with pytest.raises(RuleInvalid, match=message):
        adapt_smdebug_rule(rule)(settings)


def test_a_constructor_that_takes_anything_gets_everything(tmp_path):
    class TakesAll(SmdebugBase):
        def __init__(self, base_trial, **settings):
            super().__init__(base_trial)
            self.settings = settings

        def invoke_at_step(self, step):
            return self.settings == {"a": "1", "b": "x"}

    assert fired(adapt_smdebug_rule(TakesAll)({"a": "1", "b": "x"}), save(tmp_path, 0.0)) == [0]

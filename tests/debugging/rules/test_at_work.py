"""Rules as the evaluator runs them, from what a job asks for to the status they end with."""

from __future__ import annotations

import textwrap

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from stoker.debugging.evaluate.watched import WatchedRule
from stoker.debugging.specs import make_needs, read_specs
from stoker.debugging.tensors import SavedTensors
from tests.debugging.rules.watching import save_steps


def evaluate(watched: WatchedRule, run: SavedTensors) -> WatchedRule:
    for step in run.steps():
        watched.evaluate(run.at(step))
    watched.finish(names=run.names(), steps=len(run.steps()))
    return watched


def job(folder, rules: str, *, steps: int = 4, code_dir=None) -> WatchedRule:
    """A training with one rule, which says itself what the hook is to save."""
    (spec,) = read_specs(rules)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with save_steps(folder, needs=make_needs([spec], code_dir=code_dir)) as run:
        for _ in range(steps):
            inputs = torch.randn(16, 4)
            optimizer.zero_grad()
            F.cross_entropy(model(inputs), (inputs[:, 0] > 1.5).long()).backward()
            optimizer.step()
    return evaluate(WatchedRule(spec, code_dir=code_dir), run)


def test_labels_of_a_functional_loss_are_found_without_any_name(tmp_path):
    status = job(tmp_path, "ClassImbalance(samples=32, threshold_imbalance=2)").status
    assert status.status == "IssuesFound"
    assert status.step == 1


def test_too_few_labels_are_a_warning_and_say_how_many_steps_it_takes(tmp_path):
    status = job(tmp_path, "ClassImbalance").status
    assert status.status == "NoIssuesFound"
    assert status.details.startswith("evaluated 4 steps, needs 32 to ever fire")


@pytest.mark.parametrize("rule", ["Overfit", "Overtraining"])
def test_a_job_without_validation_is_an_error_and_not_no_issue(tmp_path, rule):
    status = job(tmp_path, rule, steps=16).status
    assert status.status == "Error"
    assert "none of EVAL was saved" in status.details


@pytest.mark.parametrize(
    ("rule", "what"),
    [
        ("LossNotDecreasing(mode=EVAL)", "mode EVAL only, but losses were saved in: TRAIN"),
        ("Overfit(start_step=99)", "none of TRAIN or EVAL was saved from start_step 99 on"),
    ],
)
def test_a_rule_about_steps_that_never_came_is_an_error_and_not_no_issue(tmp_path, rule, what):
    status = job(tmp_path, rule).status
    assert status.status == "Error"
    assert what in status.details


def test_a_run_to_compare_with_that_is_not_there_is_an_error(tmp_path):
    job(tmp_path / "first", "SimilarAcrossRuns(other_trial_0=none)")
    same = job(tmp_path / "second", f"SimilarAcrossRuns(other_trial_0={tmp_path}/first)").status
    assert (same.status, same.details) == ("NoIssuesFound", "")
    wrong = job(tmp_path / "third", f"SimilarAcrossRuns(other_trial_0={tmp_path}/frist)").status
    assert wrong.status == "Error"
    assert f"in {tmp_path}/frist" in wrong.details


def test_images_that_are_none_are_an_error_that_says_so(tmp_path):
    status = job(tmp_path, "CheckInputImages").status
    assert status.status == "Error"
    assert "Sequential_input_0 has the shape (16, 4)" in status.details


@pytest.mark.parametrize("rule", ["NLPSequenceRatio", "TreeDepth", "FeatureImportanceOverweight"])
def test_a_rule_about_something_else_is_an_error_and_not_no_issue(tmp_path, rule):
    status = job(tmp_path, rule).status
    assert status.status == "Error"
    assert "it never found" in status.details


def test_a_rule_of_the_users_own_gets_what_it_needs(tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code/mine.py").write_text(
        textwrap.dedent("""
            from stoker import Finding, Need, Rule, parameter


            class LargeActivation(Rule):
                limit: float = parameter(1.0, "the largest activation")

                def needs(self):
                    return [Need(collection="mine", module_classes=("ReLU",), reductions=("max",))]

                def check(self, step, tensors):
                    found = [t.reduction("max") for t in tensors.needed(self.needs()[0])]
                    if max(found) > self.limit:
                        return Finding(message=f"{max(found):.3g} of {len(found)}")
        """)
    )
    rules = "mine.py:LargeActivation(limit={})"
    fires = job(tmp_path / "a", rules.format(0.5), code_dir=tmp_path / "code").status
    assert (fires.status, fires.step, fires.name) == ("IssuesFound", 0, "LargeActivation")
    quiet = job(tmp_path / "b", rules.format(1e6), code_dir=tmp_path / "code").status
    assert (quiet.status, quiet.evaluated_steps) == ("NoIssuesFound", 4)


def test_a_rule_of_smdebugs_kind_runs_from_its_source_as_in_the_service(tmp_path):
    source = tmp_path / "custom_rule.py"
    source.write_text(
        textwrap.dedent("""
            from smdebug.rules.rule import Rule


            class LossAbove(Rule):
                def __init__(self, base_trial, limit):
                    super().__init__(base_trial)
                    self.limit = float(limit)

                def invoke_at_step(self, step):
                    names = self.base_trial.tensor_names(collection="losses", step=step)
                    return any(self.base_trial.tensor(n).value(step) > self.limit for n in names)
        """)
    )
    text = '[{{"RuleConfigurationName": "mine", "RuleParameters": {{"source_s3_uri": "{}",'
    text += ' "rule_to_invoke": "LossAbove", "limit": "{}"}}}}]'
    fires = job(tmp_path / "a", text.format(source, 0.1)).status
    assert fires.status == "IssuesFound"
    assert fires.details.startswith("RuleEvaluationConditionMet: Evaluation of the rule mine at s")
    quiet = job(tmp_path / "b", text.format(source, 100)).status
    assert (quiet.status, quiet.evaluated_steps) == ("NoIssuesFound", 4)
    broken = job(tmp_path / "c", text.format(source, "much")).status
    assert broken.status == "Error"
    assert "could not convert string to float: 'much'" in broken.details

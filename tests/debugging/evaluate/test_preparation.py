"""Before the worker starts: rules are fetched, tried and left as one text."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from stoker.bus.rule_status import read_rule_statuses
from stoker.contract.debugger import findings_file
from stoker.contract.job import read_job
from stoker.debugging.evaluate.preparation import prepare_rules, read_prepared_rules
from stoker.debugging.specs import make_needs, make_rule
from stoker.debugging.tensors import SavedStep, SavedTensors, write_step
from stoker.errors import RuleInvalid
from stoker.platform.model.root import open_root
from tests.debugging.buckets import serve_buckets

CUSTOM = """
from stoker.debugging.need import Need
from stoker.debugging.rule import Rule, parameter

class CustomGradientRule(Rule):
    threshold: float = parameter(10.0, "how large")

    def needs(self):
        return [Need(collection="gradients", reductions=("abs_mean",))]
"""


@pytest.fixture
def s3(tmp_path, monkeypatch):
    """A bucket with what rules name there."""
    root = open_root(tmp_path / "platform")
    bucket = root.s3_dir / "bucket"
    (bucket / "rules").mkdir(parents=True)
    (bucket / "rules/mine.py").write_text(CUSTOM)
    for name in ("run", "run-2"):
        tensors = {"Net_w": np.ones(3, np.float32)}
        step = SavedStep(step=0, mode="TRAIN", mode_step=0, tensors=tensors)
        write_step(str(bucket / name), "worker_0", step)
    with serve_buckets(root) as variables:
        for name, text in variables.items():
            monkeypatch.setenv(name, text)
        yield


def prepare(opt_ml, rules, **environ):
    """Returns the specs as worker and evaluator will read them."""
    job = read_job(environ={"STOKER_RULES": rules, **environ}, root=opt_ml.root)
    prepare_rules(job, opt_ml.root / "code")
    return read_prepared_rules(job, opt_ml.root / "code")


def of_service(**parameters):
    return json.dumps([{"RuleConfigurationName": "Mine", "RuleParameters": parameters}])


def test_rules_are_left_as_one_text_with_their_needs_and_a_first_status(opt_ml):
    specs = prepare(opt_ml, "VanishingGradient, LossNotDecreasing(quick)")
    assert [spec.needs is not None for spec in specs] == [True, True]
    paths = read_job(environ={}, root=opt_ml.root).paths
    assert [rule.status for rule in read_rule_statuses(paths)] == ["InProgress"] * 2


def test_what_an_attempt_before_has_left_is_forgotten_and_its_tensors_are_kept_aside(opt_ml):
    paths = read_job(environ={}, root=opt_ml.root).paths
    (opt_ml.root / "output/data/stoker").mkdir(parents=True)
    tensors = opt_ml.root / "output/tensors"
    old = SavedStep(step=7, mode="TRAIN", mode_step=7, tensors={"w": np.ones(1, np.float32)})
    marker = tensors / "training_job_end.ts"
    for _ in range(2):
        write_step(str(tensors), "worker_0", old)
        marker.touch()
        prepare(opt_ml, "VanishingGradient")
        assert list(SavedTensors(tensors).steps()) == []
        assert not marker.exists()
    for name in ("tensors.before-1", "tensors.before-2"):
        assert list(SavedTensors(tensors.with_name(name)).steps()) == [7]
    findings = Path(findings_file(paths))
    findings.write_text("{}\n")
    prepare(opt_ml, "VanishingGradient")
    assert not findings.exists()


@pytest.mark.usefixtures("s3")
def test_a_custom_rule_of_the_service_is_fetched_and_made(opt_ml):
    rules = of_service(
        rule_to_invoke="CustomGradientRule",
        source_s3_uri="s3://bucket/rules/mine.py",
        threshold="3",
    )
    (spec,) = prepare(opt_ml, rules)
    assert not spec.fault
    assert make_rule(spec).threshold == 3.0
    assert [need.collection for need in make_needs([spec])] == ["gradients"]


@pytest.mark.usefixtures("s3")
@pytest.mark.parametrize("setting", ["other_trial_0", "other_trials"])
def test_the_tensors_of_another_run_are_fetched_without_those_of_its_sibling(opt_ml, setting):
    (spec,) = prepare(
        opt_ml, of_service(rule_to_invoke="SimilarAcrossRuns", **{setting: "s3://bucket/run"})
    )
    assert not spec.fault
    (folder,) = spec.other_trials
    assert list(SavedTensors(folder).steps()) == [0]
    assert make_rule(spec).other_trials == folder


@pytest.mark.usefixtures("s3")
def test_what_cannot_be_fetched_is_that_rules_error(opt_ml):
    rules = of_service(rule_to_invoke="Mine", source_s3_uri="s3://bucket/rules/nothing.py")
    (spec,) = prepare(opt_ml, rules)
    assert "s3://bucket/rules/nothing.py" in spec.fault
    with pytest.raises(RuleInvalid, match=r"nothing\.py"):
        prepare(opt_ml, "Mine(source_s3_uri=s3://bucket/rules/nothing.py)")


def test_a_mail_server_that_is_none_is_told_before_the_job_if_somebody_is_to_be_mailed(opt_ml):
    mailing = "VanishingGradient(email=me@example.com)"
    with pytest.raises(RuleInvalid, match="STOKER_SMTP names no mail server") as told:
        prepare(opt_ml, mailing, STOKER_SMTP="https://s3cret@example.com")
    assert "s3cret" not in str(told.value)
    assert prepare(opt_ml, "VanishingGradient", STOKER_SMTP="https://example.com")
    assert prepare(opt_ml, mailing, STOKER_SMTP="smtp://example.com?from=me@example.com")

"""Which experiments are made of a job, the request of one, and when a gain counts."""

from __future__ import annotations

import numpy as np
import pytest

from stoker.bus.step_records import StepFacts
from stoker.cli.report.experiments import (
    Measured,
    choose_experiments,
    find_gain,
    make_request,
    measure,
)
from stoker.debugging.profiler_rules.profile import Profile
from stoker.machine.failures import UsageRefused
from stoker.report.figures.bill import make_bill
from stoker.report.figures.run import Run, evaluate_rules, read_profile
from stoker.report.insights import find_insights
from tests.debugging.profiler_rules.profiles import make_steps
from tests.platform.training_requests import make_request as make_training_request
from tests.report.sick_runs import (
    LOADER,
    make_step,
    write_healthy,
    write_run,
    write_slow_loader,
)


def choose(folder, text=""):
    profile, _ = read_profile(folder)
    run = Run(title="job", profile=profile, rules=evaluate_rules(profile)[0])
    bill = make_bill(run)
    return choose_experiments(text, run, find_insights(run, bill), bill)


def test_the_reports_suggestions_are_tried_with_values_that_differ_from_the_jobs(tmp_path):
    write_slow_loader(tmp_path)
    found = choose(tmp_path)
    assert [one.setting for one in found] == ["workers=2", "workers=4"]
    # Of a training step, as it is measured: 0.2 s of 0.392 s. Fewer workers are what is advised.
    assert found[0].predicted == pytest.approx(0.2 / 0.392, rel=0.02)
    assert [one.setting for one in choose(tmp_path, "workers=3,amp")] == ["workers=3", "amp=1"]


def test_more_workers_are_predicted_to_load_in_turns(tmp_path):
    steps = [make_step(data_wait=0.8) for _ in range(100)]  # and 0.192 s of other things
    write_run(tmp_path, steps, loader={**LOADER, "num_workers": 0})
    two, four, eight = choose(tmp_path, "workers=2,workers=4,workers=8")
    assert two.predicted == pytest.approx(1 - 0.4 / 0.992, rel=0.01)
    assert four.predicted == pytest.approx(1 - 0.2 / 0.992, rel=0.01)
    assert eight.predicted == pytest.approx(0.8 / 0.992, rel=0.01)  # no more than was waited


def test_an_unknown_setting_and_a_healthy_job_are_refused(tmp_path):
    write_healthy(tmp_path)
    with pytest.raises(UsageRefused, match="'workers=many' has no whole number"):
        choose(tmp_path, "workers=many")
    with pytest.raises(UsageRefused, match="'worker' is not a setting") as refused:
        choose(tmp_path, "worker=2")
    assert "workers" in refused.value.fix
    with pytest.raises(UsageRefused, match="nothing that can be tried"):
        choose(tmp_path)


def test_the_request_is_the_jobs_own_shortened_and_without_its_rules():
    hook = {"S3OutputPath": "s3://bucket/debug"}
    before = make_training_request(DebugHookConfig=hook, Environment={"STOKER_RULES": "X"})
    before["OutputDataConfig"] = {"S3OutputPath": "s3://bucket/out"}
    request = make_request(before, name="job-try1", setting="threads=2", steps=30)
    assert request["Environment"] == {
        "STOKER_TRY": "threads=2 steps=30",
        "STOKER_PROFILE": "auto",
        "OMP_NUM_THREADS": "2",
    }
    assert "DebugHookConfig" not in request
    assert request["AlgorithmSpecification"] == before["AlgorithmSpecification"]


def test_a_gain_counts_only_above_the_noise_and_batches_by_the_sample():
    quiet = [
        Measured(step_seconds=0.100, batch_size=8),
        Measured(step_seconds=0.102, batch_size=8),
    ]
    gain, noise = find_gain(quiet, Measured(step_seconds=0.101, batch_size=16))
    assert gain == pytest.approx(0.5)
    assert noise == 0.05
    loud = [*quiet, Measured(step_seconds=0.2, batch_size=8)]
    assert find_gain(loud, quiet[0])[1] == pytest.approx(0.1 / 0.134)


def test_the_first_third_of_an_experiment_is_not_measured():
    steps = make_steps(np.r_[np.full(10, 9.0), np.full(20, 0.1)])
    facts = StepFacts(host="algo-1", rank=0, pid=1, loaders=({"batch_size": 4},))
    found = measure(Profile(steps=[steps], facts=[facts]))
    assert (found.step_seconds, found.batch_size) == (pytest.approx(0.1), 4)
    assert measure(Profile(steps=[make_steps([0.1] * 3)])) is None

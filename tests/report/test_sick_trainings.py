"""Real trainings with a known sickness: the report names it first, with what it truly costs."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from stoker.report.figures.bill import make_bill
from stoker.report.insights import find_insights
from tests.docker.conftest import Containers
from tests.report.test_example import PACKAGES, WAKE
from tests.report.test_report import read

TRAINING = Path(__file__).with_name("sick_training.py")
PREPARATION = {"start", "download", "install", "script"}
"""On a busy machine the import of torch alone takes longer than the training."""


def diagnose(opt_ml):
    """What the script has measured, and what the report finds."""
    truth = json.loads((opt_ml.root / "output/data/truth.json").read_text())
    run = read(opt_ml.root / "output/profiler")
    bill = make_bill(run)
    found = [one for one in find_insights(run, bill) if one.key not in PREPARATION]
    return truth, bill, found


def train(opt_ml, sickness):
    opt_ml.script(WAKE + TRAINING.read_text(), sickness=sickness)
    done = opt_ml.run(OMP_NUM_THREADS="1", PYTHONPATH=PACKAGES, STOKER_PROFILE="auto")
    assert done.returncode == 0, done.stderr
    return diagnose(opt_ml)


@pytest.fixture
def use_cores():
    """Limits the processes that are started from now on to so many cores."""
    before = os.sched_getaffinity(0)
    yield lambda count: os.sched_setaffinity(0, sorted(before)[:count])
    os.sched_setaffinity(0, before)


@pytest.mark.parametrize(
    "sickness",
    ["data", "checkpoint", "lonely_checkpoint", "evaluation", "batch", "skew", "other", "idle"],
)
def test_what_costs_time_is_named_first_with_its_true_share(opt_ml, use_cores, sickness):
    use_cores(1)  # one thread would leave a second core idle, which is a finding, too
    truth, bill, (first, *_) = train(opt_ml, sickness)
    assert first.key == sickness.removeprefix("lonely_")
    assert first.lost_seconds == pytest.approx(truth["seconds"], rel=0.1)
    assert first.share == pytest.approx(truth["seconds"] / bill.total_seconds, rel=0.1)
    if sickness == "other":
        assert "most of it after the optimizer step" in first.title


def test_too_many_threads_are_named_first_with_their_number(opt_ml, use_cores):
    use_cores(2)
    truth, _, (first, *_) = train(opt_ml, "threads")
    assert first.key == "threads"
    assert first.title.startswith(f"{truth['threads']} threads compute on {truth['cores']} cores")


@pytest.mark.parametrize(("training", "cores"), [("healthy", 1), ("equal_ranks", 2)])
def test_a_healthy_training_has_no_findings(opt_ml, use_cores, training, cores):
    use_cores(cores)
    assert train(opt_ml, training)[2] == []


@pytest.mark.docker
def test_a_memory_leak_is_named_first_with_its_size(opt_ml):
    opt_ml.script(TRAINING.read_text(), sickness="memory")
    opt_ml.config("profilerconfig", {"ProfilingIntervalInMilliseconds": 100})
    done = Containers(opt_ml.root).run(
        *("--memory", "2g", "--env", "STOKER_PROFILE=auto", "--env", "OMP_NUM_THREADS=1")
    )
    assert done.returncode == 0, done.stderr
    truth, _, (first, *_) = diagnose(opt_ml)
    assert first.key == "memory"
    assert first.is_danger
    found = float(re.search(r"([0-9.]+) MB a step", first.title)[1])
    assert found * 1e6 == pytest.approx(truth["bytes_per_step"], rel=0.1)

"""A job that hangs, beside StalledTrainingRule; and one that does not."""

from __future__ import annotations

from pathlib import Path

import pytest

import stoker
from stoker.bus.rule_status import read_rule_statuses
from stoker.contract.paths import Paths

PACKAGES = str(Path(stoker.__file__).parents[1])
# What a worker with our hook leaves on disk, without the seconds that torch takes to load.
SCRIPT = """
    import os, sys, time
    import numpy as np
    from stoker.debugging.tensors import SavedStep, write_step

    for step in range(3):
        tensors = {"MSELoss_output_0": np.array(1.0 / (step + 1))}
        saved = SavedStep(step=step, mode="TRAIN", mode_step=step, tensors=tensors)
        write_step(os.environ["STOKER_ROOT"] + "/output/tensors", "worker_0", saved)
    if sys.argv[-1] == "hang":
        for _ in range(24000):  # a loader whose data never comes
            time.sleep(0.01)
        sys.exit("nobody stopped it")
"""


@pytest.fixture
def run_beside(opt_ml):
    def run(rule: str, end: str):
        opt_ml.script(SCRIPT, end=end)
        done = opt_ml.run(STOKER_RULES=rule, PYTHONPATH=PACKAGES)
        (status,) = read_rule_statuses(Paths(root=str(opt_ml.root)))
        return done, status

    return run


def test_a_job_that_hangs_is_stopped_and_that_is_an_ordinary_end(run_beside):
    rule = "StalledTrainingRule(threshold=1, stop_training_on_fire=True)"
    done, status = run_beside(rule, "hang")
    assert done.returncode == 0, done.stderr
    assert "stopped by rule StalledTrainingRule at step" in done.stderr
    assert "no step was saved for" in done.stderr
    assert status.status == "IssuesFound"


def test_a_job_that_ends_in_time_has_no_issue(run_beside):
    done, status = run_beside("StalledTrainingRule(stop_training_on_fire=True)", "end")
    assert done.returncode == 0, done.stderr
    assert "stopped by" not in done.stderr
    assert (status.status, status.details) == ("NoIssuesFound", "")

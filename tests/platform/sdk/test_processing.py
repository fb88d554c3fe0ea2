"""Unmodified processing code of SDK v2 and v3, with real containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sdks import IMAGE, run_sdk

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]
HERE = Path(__file__).parent


@pytest.fixture(scope="module", params=["v2", "v3"])
def jobs(request, platform):
    return run_sdk(
        request.param,
        HERE / f"processing_{request.param}.py",
        *(str(HERE / "processing_source"), IMAGE),
        environ=platform.environ,
    )


def test_a_script_for_scikit_learn_splits_its_data(jobs, platform):
    job = jobs["sklearn"]
    assert job["ProcessingJobStatus"] == "Completed", job["FailureReason"]
    assert job["ExitMessage"] == "4 rows"
    train = platform.file(jobs["train"]) / "train.csv"
    assert len(train.read_text().splitlines()) == 3
    assert "2 rows for training" in jobs["printed"]
    assert "sagemaker-scikit-learn:1.2-1-cpu-py3, running stoker:sklearn" in jobs["printed"]


def test_a_framework_processor_brings_a_folder_of_code(jobs):
    job = jobs["framework"]
    assert job["ProcessingJobStatus"] == "Completed", job["FailureReason"]


def test_a_failure_and_a_stop_are_told(jobs):
    if "failing" in jobs:
        assert jobs["failing"]["ProcessingJobStatus"] == "Failed"
        assert "ModuleNotFoundError" in jobs["failing"]["FailureReason"]
        assert jobs["isolated"]["ProcessingJobStatus"] == "Stopped"

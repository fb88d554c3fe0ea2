"""Training time, billable time, deadlines: arithmetic over what the store keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.platform.jobs.changes import completed, conclude, end, new_job, show
from stoker.platform.jobs.control import next_deadline, trained_seconds
from stoker.platform.jobs.describe import describe, list_jobs
from stoker.platform.jobs.state import Attempt
from stoker.platform.jobs.store import Store
from stoker.platform.model.faults import ApiFault


class Limits:
    max_runtime_seconds = 100
    max_wait_seconds: int | None = None


def job(*attempts, **fields):
    fields = {"stage": "training", **fields}
    return replace(new_job("j", {"RoleArn": "r"}, {"t": "v"}, 0.0), attempts=attempts, **fields)


FIRST = Attempt(number=1, began=10.0, ended=40.0, cause="interrupted")
SECOND = Attempt(number=2, began=70.0)


def test_gaps_are_not_billed():
    over = job(FIRST, replace(SECOND, ended=100.0), training_ended=110.0)
    shown = describe(end(conclude(over, completed(), "cleaning", 110.0), 120.0))
    assert shown["TrainingTimeInSeconds"] == 100
    assert shown["BillableTimeInSeconds"] == 70
    assert shown["TrainingStartTime"] == 10.0
    assert shown["TrainingEndTime"] == 110.0


@pytest.mark.parametrize(
    ("attempts", "billed"),
    [
        ((FIRST,), 30),
        ((FIRST, Attempt(number=2)), 30),
        ((FIRST, Attempt(number=2), replace(SECOND, number=3, ended=100.0)), 70),
        ((replace(FIRST, cause="asked"),), 100),
    ],
    ids=["ended while it waited", "while it started", "started in vain once", "not interrupted"],
)
def test_waiting_in_vain_is_not_billed_either(attempts, billed):
    over = job(*attempts, training_ended=110.0)
    shown = describe(end(conclude(over, completed(), "cleaning", 110.0), 120.0))
    assert (shown["TrainingTimeInSeconds"], shown["BillableTimeInSeconds"]) == (100, billed)


def test_a_short_job_is_billed_a_second():
    over = job(Attempt(number=1, began=1.0, ended=1.1), training_ended=1.2)
    shown = describe(end(conclude(over, completed(), "cleaning", 1.2), 1.3))
    assert (shown["TrainingTimeInSeconds"], shown["BillableTimeInSeconds"]) == (1, 1)


def test_the_request_is_echoed_without_the_tags_and_what_the_api_requires_is_there():
    shown = describe(new_job("Name", {"RoleArn": "r", "Tags": []}, {"t": "v"}, 1.0))
    assert shown["RoleArn"] == "r"
    assert "Tags" not in shown
    assert shown["TrainingJobArn"].endswith(":training-job/name")
    assert shown["ModelArtifacts"] == {"S3ModelArtifacts": ""}
    assert shown["SecondaryStatusTransitions"][0]["StatusMessage"] == "Starting the training job"
    assert not {"TrainingStartTime", "FailureReason", "FinalMetricDataList"} & shown.keys()


def test_max_runtime_counts_the_training_of_all_attempts():
    assert trained_seconds((FIRST, SECOND), 75.0) == 35.0
    deadline = next_deadline(job(FIRST, SECOND), Limits())
    assert (deadline.at, deadline.cause) == (140.0, "max_runtime")


def test_max_wait_counts_from_the_creation_and_also_in_the_queue():
    limits = Limits()
    limits.max_wait_seconds = 120
    deadline = next_deadline(job(FIRST, SECOND), limits)
    assert (deadline.at, deadline.cause) == (120.0, "max_wait")
    assert next_deadline(job(stage="queued"), limits).at == 120.0
    assert next_deadline(job(stage="queued"), Limits()) is None


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "platform.sqlite")
    yield store
    store.close()


def keep(store, *jobs):
    for job in jobs:
        store.add(job)
    return store


@pytest.mark.parametrize("order", ["Ascending", "Descending"])
def test_pages_neither_lose_nor_repeat_a_job_while_new_ones_come(order, store):
    jobs = keep(store, *(new_job(f"j{i}", {}, {}, float(i // 2)) for i in range(7)))
    params = {"MaxResults": 3, "SortOrder": order}
    seen, token = [], None
    while True:
        page = list_jobs(jobs, {**params, **({"NextToken": token} if token else {})})
        seen += [each["TrainingJobName"] for each in page["TrainingJobSummaries"]]
        keep(store, new_job(f"new{len(seen)}", {}, {}, 99.0))
        token = page.get("NextToken")
        if token is None:
            break
    old = [name for name in seen if name.startswith("j")]
    expected = [f"j{i}" for i in range(7)]
    assert old == (expected if order == "Ascending" else expected[::-1])


def test_a_token_of_another_order_is_refused(store):
    jobs = keep(store, *(new_job(f"j{i}", {}, {}, float(i)) for i in range(3)))
    token = list_jobs(jobs, {"MaxResults": 1, "SortBy": "Name"})["NextToken"]
    with pytest.raises(ApiFault, match="Invalid NextToken"):
        list_jobs(jobs, {"MaxResults": 1, "NextToken": token})


def test_a_list_is_filtered(store):
    pear = show(new_job("pear", {}, {}, 5.0), "Training", "", 9.0)
    jobs = keep(store, new_job("apple", {}, {}, 1.0), pear)

    def names(**params):
        return [j["TrainingJobName"] for j in list_jobs(jobs, params)["TrainingJobSummaries"]]

    assert names(NameContains="PEA") == ["pear"]
    assert names(CreationTimeAfter=2.0) == ["pear"]
    assert names(LastModifiedTimeBefore=2.0) == ["apple"]
    assert names(StatusEquals="Failed") == []
    assert names(SortBy="Name", SortOrder="Descending") == ["pear", "apple"]

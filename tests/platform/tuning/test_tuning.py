"""Tuning jobs on a real server: every trial is a training job, and nothing is lost."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import re
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from botocore.exceptions import ClientError

from stoker.platform.jobs.series import MetricSeries
from stoker.platform.tuning.trials import read_curve
from tests.platform.local_server import DEFAULT_BUCKET, wait_until
from tests.platform.tuning.tuning_jobs import (
    OBJECTIVE,
    RANGES,
    SCRIPT,
    describe,
    make_definition,
    make_request,
    trials,
    tune,
    value,
    wait,
)

FAILING = """
    print("val_acc=0.5")
    raise SystemExit("the data is not there")
"""


def test_every_trial_is_a_training_job_and_the_best_one_is_named(server):
    tune(server, "search", Tags=[{"Key": "team", "Value": "a"}])
    job = wait(server, "search")
    assert job["HyperParameterTuningJobStatus"] == "Completed", job
    rows = trials(server, "search")
    assert [row["TrainingJobName"][:10] for row in rows] == [
        "search-001",
        "search-002",
        "search-003",
    ]
    assert all(re.fullmatch(r"search-\d{3}-[0-9a-f]{8}", row["TrainingJobName"]) for row in rows)
    best = max(rows, key=value)
    assert job["BestTrainingJob"]["TrainingJobName"] == best["TrainingJobName"]
    assert value(best) == pytest.approx(float(best["TunedHyperParameters"]["rate"]))
    assert job["TrainingJobStatusCounters"]["Completed"] == 3
    assert job["ObjectiveStatusCounters"] == {"Succeeded": 3, "Pending": 0, "Failed": 0}
    trained = server.describe(best["TrainingJobName"])
    assert trained["TuningJobArn"] == job["HyperParameterTuningJobArn"]
    assert trained["HyperParameters"]["_tuning_objective_metric"] == "acc"
    assert server.archive(trained["ModelArtifacts"]["S3ModelArtifacts"])["rate"]
    client = server.boto("sagemaker")
    for arn in (trained["TrainingJobArn"], job["HyperParameterTuningJobArn"]):
        assert client.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "team", "Value": "a"}]
    found = client.search(
        Resource="TrainingJob",
        SearchExpression={
            "Filters": [
                {"Name": "TuningJobArn", "Value": job["HyperParameterTuningJobArn"]},
                {"Name": "Metrics.acc", "Operator": "LessThan", "Value": str(value(best))},
            ]
        },
    )["Results"]
    assert len(found) == 2
    (tuned,) = client.search(
        Resource="HyperParameterTuningJob",
        SearchExpression={"Filters": [{"Name": "Tags.team", "Value": "a"}]},
    )["Results"]
    assert tuned["HyperParameterTuningJob"]["HyperParameterTuningJobName"] == "search"
    ordered = trials(server, "search", SortBy="FinalObjectiveMetricValue", MaxResults=1)
    assert [value(row) for row in ordered] == sorted(value(row) for row in rows)
    assert server.leftovers() == []


def test_lists_stops_and_deletes(server, tmp_path):
    go = tmp_path / "go"
    waiting = f"""
        import os, time
        print("val_acc=0.5", flush=True)
        while not os.path.exists({str(go)!r}):
            time.sleep(0.02)
    """
    client = server.boto("sagemaker")
    tune(server, "first", waiting, limits={"MaxNumberOfTrainingJobs": 9})
    with pytest.raises(ClientError, match="A hyperparameter tuning job with the name, first"):
        tune(server, "first")
    wait_until(lambda: [value(t) for t in trials(server, "first")] == [0.5] * 3, "three values")
    with pytest.raises(ClientError, match=r"is in status InProgress\. Stop it"):
        client.delete_hyper_parameter_tuning_job(HyperParameterTuningJobName="first")
    client.stop_hyper_parameter_tuning_job(HyperParameterTuningJobName="first")
    job = wait(server, "first")
    assert job["HyperParameterTuningJobStatus"] == "Stopped"
    assert job["TrainingJobStatusCounters"]["Stopped"] == 3
    assert job["BestTrainingJob"]["FinalHyperParameterTuningJobObjectiveMetric"]["Value"] == 0.5
    with pytest.raises(ClientError, match="is in status Stopped"):
        client.stop_hyper_parameter_tuning_job(HyperParameterTuningJobName="first")
    tune(server, "second", limits={"MaxNumberOfTrainingJobs": 1})
    wait(server, "second")
    pages = client.get_paginator("list_hyper_parameter_tuning_jobs").paginate(
        SortBy="Name", SortOrder="Descending", MaxResults=1
    )
    rows = [row for page in pages for row in page["HyperParameterTuningJobSummaries"]]
    assert [row["HyperParameterTuningJobName"] for row in rows] == ["second", "first"]
    client.delete_hyper_parameter_tuning_job(HyperParameterTuningJobName="first")
    with pytest.raises(ClientError, match="can't find a tuning job called first"):
        describe(server, "first")


def test_trials_that_fail_end_the_search_with_the_first_reason(server):
    tune(server, "failing", FAILING, limits={"MaxNumberOfTrainingJobs": 20})
    job = wait(server, "failing")
    assert job["HyperParameterTuningJobStatus"] == "Failed"
    reason = job["FailureReason"]
    assert reason.startswith("No training job succeeded after ")
    assert "failing-001-" in reason
    assert "the data is not there" in reason
    assert 5 <= job["TrainingJobStatusCounters"]["NonRetryableError"] <= 8
    # One that ran when the search was given up may have been stopped behind its value.
    failed = [row for row in trials(server, "failing") if row["TrainingJobStatus"] == "Failed"]
    assert {row["ObjectiveStatus"] for row in failed} == {"Failed"}


def test_a_search_goes_on_when_some_trials_fail_or_report_nothing(server):
    script = """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--opt")
        opt = parser.parse_args().opt
        if opt == "fails":
            raise SystemExit("bad luck")
        said = {"silent": "nothing", "nan": "nan", "inf": "-inf", "good": "0.5"}[opt]
        print("nothing" if said == "nothing" else f"val_acc={said}")
    """
    values = ["fails", "silent", "nan", "inf", "good"]
    ranges = {"CategoricalParameterRanges": [{"Name": "opt", "Values": values}]}
    definition = make_definition(server, script)
    any_word = [{"Name": "acc", "Regex": r"val_acc=(\S+)"}]
    algorithm = {**definition["AlgorithmSpecification"], "MetricDefinitions": any_word}
    tune(
        server,
        "mixed",
        script,
        config={"Strategy": "Grid", "ParameterRanges": ranges},
        limits={"MaxNumberOfTrainingJobs": None, "MaxParallelTrainingJobs": 5},
        definition={"AlgorithmSpecification": algorithm},
    )
    job = wait(server, "mixed")
    assert job["HyperParameterTuningJobStatus"] == "Completed"
    limits = job["HyperParameterTuningJobConfig"]["ResourceLimits"]
    assert limits["MaxNumberOfTrainingJobs"] == 5
    rows = trials(server, "mixed")
    assert [row["TunedHyperParameters"]["opt"] for row in rows] == values
    assert [row["ObjectiveStatus"] for row in rows] == ["Failed"] * 4 + ["Succeeded"]
    assert "bad luck" in rows[0]["FailureReason"]
    assert job["BestTrainingJob"]["TunedHyperParameters"] == {"opt": "good"}


def test_a_trial_that_never_reports_holds_up_no_search(server, tmp_path):
    script = f"""
        import argparse, os, time
        parser = argparse.ArgumentParser()
        parser.add_argument("--opt")
        if parser.parse_args().opt == "good":
            print("val_acc=0.5")
        else:
            while not os.path.exists({str(tmp_path / "never")!r}):
                time.sleep(0.02)
    """
    ranges = {"CategoricalParameterRanges": [{"Name": "opt", "Values": ["silent", "good"]}]}
    tune(
        server,
        "silent",
        script,
        config={
            "Strategy": "Grid",
            "ParameterRanges": ranges,
            "TrainingJobEarlyStoppingType": "Auto",
            "TuningJobCompletionCriteria": {"TargetObjectiveMetricValue": 0.5},
        },
        limits={"MaxNumberOfTrainingJobs": None, "MaxParallelTrainingJobs": 2},
    )
    job = wait(server, "silent")
    assert job["HyperParameterTuningJobStatus"] == "Completed"
    rows = trials(server, "silent")
    assert [row["TrainingJobStatus"] for row in rows] == ["Stopped", "Completed"]
    assert [row["ObjectiveStatus"] for row in rows] == ["Failed", "Succeeded"]


def test_lines_that_both_hosts_print_count_once(server):
    two = {"InstanceType": "ml.g5.xlarge", "InstanceCount": 2, "VolumeSizeInGB": 1}
    tune(
        server,
        "hosts",
        limits={"MaxNumberOfTrainingJobs": 1},
        definition={"ResourceConfig": two, "StaticHyperParameters": {"epochs": "3"}},
    )
    assert wait(server, "hosts")["HyperParameterTuningJobStatus"] == "Completed"
    (row,) = trials(server, "hosts")
    series = MetricSeries(server.root.metrics_database)
    points = series.read(row["TrainingJobName"], "acc")
    assert sorted(point.host for point in points) == ["algo-1"] * 3 + ["algo-2"] * 3
    rate = float(row["TunedHyperParameters"]["rate"])
    curve = read_curve(series, row["TrainingJobName"], "acc")
    series.close()
    assert curve == pytest.approx((rate, rate + 0.001, rate + 0.002))
    assert value(row) == pytest.approx(rate + 0.002)


@pytest.fixture
def small_disk(root_folder):
    """The platform's folder on a disk of its own."""
    root_folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=80m", "tmpfs", root_folder], check=True)
    yield root_folder
    subprocess.run(["umount", "--lazy", root_folder], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a file system")
def test_a_search_on_a_full_disk_continues_when_it_has_space_again(
    small_disk, make_server, tmp_path
):
    server = make_server().start()
    go = tmp_path / "go"
    script = (
        SCRIPT
        + f"""
    import time
    while not os.path.exists({str(go)!r}):
        time.sleep(0.02)
    """
    )
    tune(server, "full", script, limits={"MaxNumberOfTrainingJobs": 6})
    wait_until(lambda: len([t for t in trials(server, "full") if value(t)]) == 3, "three values")
    filler = small_disk / "filler"
    try:
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 12))
        go.touch()
        wait_until(lambda: "is full" in server.log_file.read_text(), "a trial meets the full disk")
        assert describe(server, "full")["HyperParameterTuningJobStatus"] == "InProgress"
    finally:
        filler.unlink()
    assert wait(server, "full")["HyperParameterTuningJobStatus"] == "Completed"
    rows = trials(server, "full")
    assert len(rows) == 6
    failed = [row for row in rows if row["TrainingJobStatus"] == "Failed"]
    assert 1 <= len(failed) <= 4, "the search did not go through its trials meanwhile"
    assert all(re.search(r"disk .*is full", row["FailureReason"]) for row in failed)
    for row in rows:
        if row not in failed:
            assert row["TrainingJobStatus"] == "Completed"
            assert value(row) == pytest.approx(float(row["TunedHyperParameters"]["rate"]))


def test_early_stopping_ends_what_is_worse_than_the_median(server, tmp_path):
    script = f"""
        import argparse, os, time
        parser = argparse.ArgumentParser()
        parser.add_argument("--opt", type=float)
        opt = parser.parse_args().opt
        for epoch in range(3):
            print(f"val_acc={{opt}}", flush=True)
        while opt < 0.5 and not os.path.exists({str(tmp_path / "never")!r}):
            time.sleep(0.02)
    """
    ranges = {
        "CategoricalParameterRanges": [{"Name": "opt", "Values": ["0.6", "0.7", "0.8", "0.1"]}]
    }
    tune(
        server,
        "early",
        script,
        config={
            "Strategy": "Grid",
            "ParameterRanges": ranges,
            "TrainingJobEarlyStoppingType": "Auto",
        },
        limits={"MaxNumberOfTrainingJobs": None, "MaxParallelTrainingJobs": 1},
    )
    job = wait(server, "early")
    assert job["HyperParameterTuningJobStatus"] == "Completed"
    rows = trials(server, "early")
    assert [r["TrainingJobStatus"] for r in rows] == ["Completed"] * 3 + ["Stopped"]
    assert rows[3]["ObjectiveStatus"] == "Succeeded"
    said = server.log(rows[3]["TrainingJobName"])
    assert any("worse than the median of earlier trials" in line for line in said)


@pytest.mark.parametrize(
    ("criteria", "most"),
    [
        ({"TargetObjectiveMetricValue": 0.05}, 3),
        ({"BestObjectiveNotImproving": {"MaxNumberOfTrainingJobsNotImproving": 3}}, 19),
    ],
)
def test_completion_criteria_end_a_search_before_its_last_trial(server, criteria, most):
    tune(
        server,
        "criteria",
        config={"TuningJobCompletionCriteria": criteria},
        limits={"MaxNumberOfTrainingJobs": 20, "MaxParallelTrainingJobs": 2},
    )
    job = wait(server, "criteria")
    assert job["HyperParameterTuningJobStatus"] == "Completed"
    assert len(trials(server, "criteria")) <= most
    assert "NumberOfTrainingJobsObjectiveNotImproving" in job["TuningJobCompletionDetails"]


def test_a_child_knows_its_parents_best(server):
    tune(server, "parent")
    parent = wait(server, "parent")
    warm = {"ParentHyperParameterTuningJobs": [{"HyperParameterTuningJobName": "parent"}]}
    for kind in ("IdenticalDataAndAlgorithm", "TransferLearning"):
        name = f"child-{kind[:8]}"
        tune(
            server,
            name,
            config={"RandomSeed": 3},
            limits={"MaxNumberOfTrainingJobs": 2},
            WarmStartConfig={**warm, "WarmStartType": kind},
        )
        child = wait(server, name)
        assert child["HyperParameterTuningJobStatus"] == "Completed"
        if kind == "TransferLearning":
            assert "OverallBestTrainingJob" not in child
            continue
        both = [parent["BestTrainingJob"], child["BestTrainingJob"]]
        overall = child["OverallBestTrainingJob"]
        assert value(overall) == max(value(row) for row in both)
        assert overall["TuningJobName"] in ("parent", name)


def test_a_parent_must_be_there_and_over(server, tmp_path):
    client = server.boto("sagemaker")
    warm = {"WarmStartType": "TransferLearning"}
    warm["ParentHyperParameterTuningJobs"] = [{"HyperParameterTuningJobName": "parent"}]
    child = make_request(server, "child", WarmStartConfig=warm)
    with pytest.raises(ClientError, match="can't find a tuning job called parent") as refused:
        client.create_hyper_parameter_tuning_job(**child)
    assert refused.value.response["Error"]["Code"] == "ResourceNotFound"
    tune(server, "parent", limits={"MaxNumberOfTrainingJobs": 9})
    with pytest.raises(ClientError, match="is in status InProgress"):
        client.create_hyper_parameter_tuning_job(**child)
    client.stop_hyper_parameter_tuning_job(HyperParameterTuningJobName="parent")
    wait(server, "parent")
    ranges = {"ContinuousParameterRanges": RANGES["ContinuousParameterRanges"]}
    child["HyperParameterTuningJobConfig"]["ParameterRanges"] = ranges
    with pytest.raises(ClientError, match="does not have: layers, opt"):
        client.create_hyper_parameter_tuning_job(**child)


def test_definitions_share_the_trials(server, tmp_path):
    numbers = {"ContinuousParameterRanges": [{"Name": "rate", "MinValue": "2", "MaxValue": "3"}]}
    metrics = [{"Name": "all", "Regex": "epoch [0-9]+ val_acc=([0-9.]+)"}]
    second = make_definition(
        server,
        DefinitionName="two",
        TuningObjective={"Type": "Minimize", "MetricName": "all"},
        HyperParameterRanges=numbers,
    )
    second["AlgorithmSpecification"]["MetricDefinitions"] = metrics
    first = make_definition(
        server, DefinitionName="one", TuningObjective=OBJECTIVE, HyperParameterRanges=RANGES
    )
    tune(
        server,
        "several",
        config={
            "HyperParameterTuningJobObjective": None,
            "ParameterRanges": None,
            # What the second one minimises is above it, which is no success.
            "TuningJobCompletionCriteria": {"TargetObjectiveMetricValue": 0.95},
        },
        TrainingJobDefinition=None,
        TrainingJobDefinitions=[first, second],
        limits={"MaxNumberOfTrainingJobs": 4},
    )
    job = wait(server, "several")
    assert job["HyperParameterTuningJobStatus"] == "Completed"
    assert job["TrainingJobStatusCounters"]["Completed"] == 4
    assert job["BestTrainingJob"]["TrainingJobDefinitionName"] == "one"
    names = [row["TrainingJobDefinitionName"] for row in trials(server, "several")]
    assert names == ["one", "two", "one", "two"]
    page = tmp_path / "page.html"
    words = ("tune", "show", "several", "--csv", "--page", str(page))
    shown = subprocess.check_output(
        [*(sys.executable, "-m", "stoker.cli.main"), *words, "--root", str(server.root.folder)],
        text=True,
    )
    rows = list(csv.DictReader(io.StringIO(shown)))
    assert [row["definition"] for row in rows] == names
    assert all(float(row["objective"]) == pytest.approx(float(row["rate"])) for row in rows)
    facts = json.loads(re.search(r'id="facts">(.*?)</script>', page.read_text(), re.S)[1])
    searched = [[p["name"] for p in each["parameters"]] for each in facts["definitions"]]
    assert searched == [["rate", "layers", "opt"], ["rate"]]
    assert all(trial["objective"] is not None for trial in facts["trials"])


def test_autotune_chooses_ranges_around_the_hints(server):
    hints = [{"Name": "rate", "ValueHint": "0.5"}, {"Name": "layers", "ValueHint": "2"}]
    hints.append({"Name": "opt", "ValueHint": "sgd"})
    tune(
        server,
        "auto",
        config={"ParameterRanges": {"AutoParameters": hints}},
        limits={"MaxNumberOfTrainingJobs": 3},
        Autotune={"Mode": "Enabled"},
    )
    assert wait(server, "auto")["HyperParameterTuningJobStatus"] == "Completed"
    for row in trials(server, "auto"):
        assert 0.05 <= float(row["TunedHyperParameters"]["rate"]) <= 5
        assert 1 <= int(row["TunedHyperParameters"]["layers"]) <= 4
        trained = server.describe(row["TrainingJobName"])
        assert trained["HyperParameters"]["opt"] == "sgd"


def test_spot_trials_have_checkpoints_of_their_own(server):
    tune(
        server,
        "spot",
        limits={"MaxNumberOfTrainingJobs": 2},
        definition={
            "EnableManagedSpotTraining": True,
            "StoppingCondition": {"MaxRuntimeInSeconds": 500, "MaxWaitTimeInSeconds": 500},
            "CheckpointConfig": {"S3Uri": f"s3://{DEFAULT_BUCKET}/checkpoints/"},
            "ResourceConfig": None,
            "HyperParameterTuningResourceConfig": {
                "InstanceConfigs": [
                    {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}
                ],
                "AllocationStrategy": "Prioritized",
            },
        },
    )
    assert wait(server, "spot")["HyperParameterTuningJobStatus"] == "Completed"
    places = {
        server.describe(row["TrainingJobName"])["CheckpointConfig"]["S3Uri"]: row
        for row in trials(server, "spot")
    }
    assert places.keys() == {
        f"s3://{DEFAULT_BUCKET}/checkpoints/{row['TrainingJobName']}" for row in places.values()
    }


def test_trials_whose_jobs_are_deleted_keep_their_results(server):
    tune(server, "kept")
    wait(server, "kept")
    before = trials(server, "kept")
    client = server.boto("sagemaker")
    for row in before:
        client.delete_training_job(TrainingJobName=row["TrainingJobName"])
    shown = ("TrainingJobName", "TrainingJobStatus", "ObjectiveStatus", "TunedHyperParameters")
    after = trials(server, "kept")
    assert [[row[key] for key in shown] for row in after] == [
        [row[key] for key in shown] for row in before
    ]
    assert [value(row) for row in after] == [value(row) for row in before]
    assert client.list_training_jobs()["TrainingJobSummaries"] == []
    metrics = server.boto("cloudwatch").list_metrics()["Metrics"]
    assert metrics == [], "a name that is used again begins without metrics"


@pytest.mark.timeout(600)
def test_a_server_killed_at_ten_moments_loses_and_doubles_no_trial(server):
    chance = random.Random(17)
    tune(
        server,
        "killed",
        limits={"MaxNumberOfTrainingJobs": 12, "MaxParallelTrainingJobs": 3},
        definition={"StaticHyperParameters": {"epochs": "3"}},
    )
    for _ in range(10):
        # The moment is the test's subject: there is no fact to wait for.
        time.sleep(chance.uniform(0, 1.5))
        server.kill()
        server.start()
    job = wait(server, "killed")
    assert job["HyperParameterTuningJobStatus"] == "Completed", job
    rows = trials(server, "killed")
    assert [row["TrainingJobName"][:10] for row in rows] == [
        f"killed-{n:03}" for n in range(1, 13)
    ]
    assert {row["TrainingJobStatus"] for row in rows} == {"Completed"}
    assert len({row["TunedHyperParameters"]["rate"] for row in rows}) == 12
    listed = server.boto("sagemaker").list_training_jobs(MaxResults=100, NameContains="killed-")
    assert len(listed["TrainingJobSummaries"]) == 12
    for row in rows:
        assert value(row) == pytest.approx(float(row["TunedHyperParameters"]["rate"]) + 0.002)
    assert server.leftovers() == []

"""Hyperband: trials that lose a rung are paused, and the best are resumed from checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.platform.local_server import DEFAULT_BUCKET, statuses
from tests.platform.tuning.tuning_jobs import make_definition, trials, tune, value, wait

SCRIPT = Path(__file__).with_name("resumed_training.py")
EPOCHS = 9
# Quick: without checkpoints nothing has to be repeated, so no network is needed.
PRINTS = """
    import argparse, time
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float)
    parser.add_argument("--epochs", type=int)
    args = parser.parse_args()
    for epoch in range(args.epochs):
        print(f"epoch {epoch} val_acc={args.lr + epoch / 1e6:.6f}", flush=True)
        time.sleep(0.8)
"""
RANGES = {"CategoricalParameterRanges": [{"Name": "lr", "Values": ["0.1", "0.3", "0.2"]}]}


def tune_by_hyperband(server, name, script, **definition):
    return tune(
        server,
        name,
        script,
        config={"Strategy": "Hyperband", "ParameterRanges": RANGES, "RandomSeed": 2},
        limits={"MaxNumberOfTrainingJobs": 3, "MaxParallelTrainingJobs": 1},
        definition={"StaticHyperParameters": {"epochs": str(EPOCHS)}, **definition},
    )


@pytest.mark.timeout(600)
def test_a_promoted_trial_equals_an_uninterrupted_run_bit_for_bit(server):
    checkpoints = {"CheckpointConfig": {"S3Uri": f"s3://{DEFAULT_BUCKET}/checkpoints"}}
    tune_by_hyperband(server, "rungs", SCRIPT.read_text(), **checkpoints)
    job = wait(server, "rungs")
    assert job["HyperParameterTuningJobStatus"] == "Completed", job
    rows = trials(server, "rungs")
    described = {row["TrainingJobName"]: server.describe(row["TrainingJobName"]) for row in rows}
    paused = [name for name, trial in described.items() if "Interrupted" in statuses(trial)]
    assert len(paused) == 3
    # The best one was paused at its first rung, promoted, and trained to the end.
    best = job["BestTrainingJob"]
    assert best["TunedHyperParameters"] == {"lr": "0.3"}
    assert best["TrainingJobStatus"] == "Completed"
    assert best["TrainingJobName"] in paused
    assert value(best) == pytest.approx(0.3 + (EPOCHS - 1) / 1e6)
    others = [row for row in rows if row["TrainingJobName"] != best["TrainingJobName"]]
    assert {row["TrainingJobStatus"] for row in others} == {"Stopped"}
    said = server.log(best["TrainingJobName"])
    assert any("tuning job rungs: paused after" in line for line in said)
    assert any("tuning job rungs: resumed after" in line for line in said)
    values = [line for line in said if line.startswith("epoch ")]
    assert len(values) == EPOCHS, "no epoch is lost or repeated"
    definition = make_definition(server, SCRIPT.read_text())
    hyperparameters = {**definition["StaticHyperParameters"], "lr": "0.3", "epochs": str(EPOCHS)}
    server.boto("sagemaker").create_training_job(
        **{k: v for k, v in definition.items() if k != "StaticHyperParameters"},
        TrainingJobName="whole",
        HyperParameters=hyperparameters,
    )
    whole = server.wait("whole")
    assert whole["TrainingJobStatus"] == "Completed"

    def weights(trained):
        return server.archive(trained["ModelArtifacts"]["S3ModelArtifacts"])["weights"]

    assert weights(described[best["TrainingJobName"]]) == weights(whole)
    assert server.leftovers() == []


@pytest.mark.timeout(600)
def test_without_checkpoints_a_trial_that_loses_is_stopped_and_it_is_said_why(server):
    tune_by_hyperband(server, "stops", PRINTS)
    job = wait(server, "stops")
    assert job["HyperParameterTuningJobStatus"] == "Completed", job
    stopped = [row for row in trials(server, "stops") if row["TrainingJobStatus"] == "Stopped"]
    assert stopped
    for row in stopped:
        assert row["ObjectiveStatus"] == "Succeeded"
        said = server.log(row["TrainingJobName"])
        assert any("has no CheckpointConfig" in line for line in said)

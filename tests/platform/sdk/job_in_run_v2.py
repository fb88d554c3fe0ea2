"""A job of SDK v2 in a run, and its numbers by Run and ExperimentAnalytics, in the last line."""

from __future__ import annotations

import json
from pathlib import Path

import boto3
from sagemaker import Session
from sagemaker.analytics import ExperimentAnalytics
from sagemaker.experiments import Run, load_run
from sagemaker.pytorch import PyTorch

TRAIN = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
lr = parser.parse_args().lr
for i in range(7):
    print(f"val_loss={lr / (i + 1):.9f};", flush=True)
"""
Path("src").mkdir()
Path("src/train.py").write_text(TRAIN)
session = Session(boto3.Session())
place = {"experiment_name": "Equal", "run_name": "Train", "sagemaker_session": session}
with Run(**place) as run:
    run.log_parameter("note", "from the client")
    data = session.upload_string_as_file_body("1,2", session.default_bucket(), "equal/train.csv")
    estimator = PyTorch(
        image_uri="any/image:1",
        role="arn:aws:iam::000000000000:role/any",
        instance_count=1,
        instance_type="ml.m5.large",
        entry_point="train.py",
        source_dir="src",
        hyperparameters={"lr": 0.7},
        metric_definitions=[{"Name": "val:loss", "Regex": "val_loss=([0-9.]+);"}],
        sagemaker_session=session,
    )
    estimator.fit({"train": data}, job_name="equal-numbers", logs="None")
with load_run(**place) as run:
    component = run._trial_component
(row,) = json.loads(
    ExperimentAnalytics(experiment_name="equal", sagemaker_session=session)
    .dataframe()
    .to_json(orient="records")
)
(metric,) = component.metrics
print(
    json.dumps(
        {
            "by_run": [metric.metric_name, metric.last, metric.min, metric.max, metric.count],
            "by_analytics": [
                "val:loss",
                *(row[f"val:loss - {kind}"] for kind in ("Last", "Min", "Max", "Count")),
            ],
            "params": [component.parameters["lr"], row["lr"], row["note"]],
            "component": component.trial_component_name,
        }
    )
)

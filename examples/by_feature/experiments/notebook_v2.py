"""The classic flow of a notebook: one experiment, a step of preprocessing, several training jobs.

Run it:   eval "$(stoker local env)"
          python examples/by_feature/experiments/notebook_v2.py

The same code runs on SageMaker with a role and an image of your account. `with_mlflow.py` then
finds the same jobs by MLflow.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import boto3
from sagemaker import Session
from sagemaker.analytics import ExperimentAnalytics
from sagemaker.estimator import Estimator
from sagemaker.experiments import Run, load_run
from sagemaker.inputs import TrainingInput

HERE = Path(__file__).parent
IMAGE = os.environ.get("IMAGE", "stoker:cpu")
ROLE = "arn:aws:iam::000000000000:role/stoker-local"
METRICS = [{"Name": "train:loss", "Regex": r"train_loss=([0-9.]+)"}]


def main(rates: tuple[float, ...] = (0.1, 0.5)) -> dict[str, object]:
    session = Session(boto3.Session())
    experiment = f"houses-{int(time.time())}"

    # 1. Preprocessing: a run of its own, with what it read and wrote.
    with Run(experiment_name=experiment, run_name="preprocess", sagemaker_session=session) as run:
        run.log_parameters({"rows": 200, "normalize": "minmax"})
        data = session.upload_string_as_file_body(
            "1,2,3\n", session.default_bucket(), f"{experiment}/train.csv"
        )
        run.log_artifact("train", data, is_output=True)

    # 2. Several jobs in one trial, by experiment_config.
    for number, rate in enumerate(rates):
        estimator = Estimator(
            image_uri=IMAGE,
            role=ROLE,
            instance_count=1,
            instance_type="ml.m5.large",
            entry_point="train.py",
            source_dir=str(HERE),
            hyperparameters={"lr": rate, "epochs": 4},
            metric_definitions=METRICS,
            sagemaker_session=session,
        )
        estimator.fit(
            {"train": TrainingInput(data)},
            job_name=f"{experiment}-{number}",
            experiment_config={
                "ExperimentName": experiment,
                "TrialName": f"{experiment}-rates",
                "TrialComponentDisplayName": f"rate-{number}",
            },
            logs="None",
        )

    # 3. The results: in a table, in a run, in MLflow.
    table = ExperimentAnalytics(experiment_name=experiment, sagemaker_session=session).dataframe()
    columns = ["DisplayName", "lr", "train:loss - Last", "train:loss - Count"]
    print(table[[name for name in columns if name in table]].to_string())
    with load_run(
        experiment_name=experiment, run_name="preprocess", sagemaker_session=session
    ) as run:
        run.log_metric("jobs", len(rates))
    jobs = table[table["DisplayName"].str.startswith("rate")].set_index("DisplayName")
    losses = {name: row["train:loss - Last"] for name, row in jobs.iterrows()}
    return {"experiment": experiment, "losses": losses}


if __name__ == "__main__":
    print(json.dumps(main()))
    sys.exit(0)

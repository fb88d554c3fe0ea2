"""What a user of SDK v2 or v3 does with experiments; the last line says what was seen."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import boto3

version, job = sys.argv[1:]
if version == "v2":
    from sagemaker import Session
    from sagemaker.analytics import ExperimentAnalytics
    from sagemaker.experiments import Run, list_runs, load_run
else:
    from sagemaker.core.analytics import ExperimentAnalytics
    from sagemaker.core.experiments.run import Run, list_runs, load_run
    from sagemaker.core.helper.session_helper import Session

session = Session(boto3.Session())
name = f"My-Experiment-{version}"
report = Path("report.txt")
report.write_text("fine")
with Run(experiment_name=name, run_name="First", sagemaker_session=session) as run:
    run.log_parameter("lr", 0.5)
    run.log_parameters({"optimizer": "adam", "epochs": 3})
    for step in range(25):
        run.log_metric("loss", 1 / (step + 1), step=step)
    run.log_metric("accuracy", 0.75)
    run.log_file(str(report), name="report")
    run.log_artifact("data", "s3://bucket/data", is_output=False)
with Run(experiment_name=name, run_name="First", sagemaker_session=session) as run:
    run.log_parameter("again", "yes")
with load_run(experiment_name=name, run_name="first", sagemaker_session=session) as run:
    run.log_metric("loss", 0.01, step=25)
try:
    with Run(experiment_name=name, run_name="second", sagemaker_session=session) as run:
        run.log_parameter("lr", 0.1)
        raise KeyError("the script failed")
except KeyError:
    pass
# In a job: the ARN of the job leads to its run.
os.environ["TRAINING_JOB_ARN"] = job
with load_run(sagemaker_session=session) as run:
    run.log_metric("from_script", 7.0, step=0)
    in_job = [run.experiment_name, run.run_name]
del os.environ["TRAINING_JOB_ARN"]
runs = list_runs(experiment_name=name.lower(), sagemaker_session=session)
frame = ExperimentAnalytics(
    experiment_name=name.lower(), sagemaker_session=session, sort_by="Parameters.lr"
).dataframe()
job_frame = ExperimentAnalytics(experiment_name="jobs", sagemaker_session=session).dataframe()
print(
    json.dumps(
        {
            "runs": sorted(each.run_name for each in runs),
            "rows": json.loads(frame.to_json(orient="records")),
            "job_rows": json.loads(job_frame.to_json(orient="records")),
            "in_job": in_job,
        }
    )
)

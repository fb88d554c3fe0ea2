"""A notebook whose kernel is killed in the middle of `fit()`: killed_kernel.py SOURCE GO.

The kernel is a real one. The cells that are run after the kill are those that a user would run.
"""

import json
import sys
import time
from pathlib import Path

import boto3
from jupyter_client.manager import start_new_kernel

SOURCE, GO = sys.argv[1:]
SETUP = """
from sagemaker.estimator import Estimator
from sagemaker.experiments import Run
common = {"image_uri": "any/image:1", "instance_count": 1, "instance_type": "ml.m5.xlarge"}
"""
FIT = f"""
with Run(experiment_name="killed", run_name="first"):
    estimator = Estimator(**common, source_dir={SOURCE!r}, entry_point="wait.py")
    estimator.fit(job_name="killed-kernel")
"""
AGAIN = """
again = Estimator.attach("killed-kernel")
print("model:", again.model_data)
again.logs()
with Run(experiment_name="killed", run_name="first") as run:
    run.log_metric("after", 1.0)
"""

sagemaker = boto3.client("sagemaker")


def describe():
    return sagemaker.describe_training_job(TrainingJobName="killed-kernel")


def wait_for(is_so, what):
    deadline = time.monotonic() + 200
    while not is_so():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.1)


def is_training():
    jobs = sagemaker.list_training_jobs(NameContains="killed-kernel")["TrainingJobSummaries"]
    return bool(jobs) and describe()["SecondaryStatus"] == "Training"


manager, client = start_new_kernel()
client.execute_interactive(SETUP, timeout=200)
client.execute(FIT)
wait_for(is_training, "the job trains")
manager.shutdown_kernel(now=True)  # SIGKILL
result = {"after the kill": describe()["TrainingJobStatus"]}
Path(GO).touch()

printed = []
manager, client = start_new_kernel()
for cell in (SETUP, AGAIN):
    reply = client.execute_interactive(
        cell,
        timeout=200,
        output_hook=lambda message: printed.append(message["content"].get("text", "")),
    )
    assert reply["content"]["status"] == "ok", reply["content"]
manager.shutdown_kernel(now=True)
runs = sagemaker.list_trial_components(ExperimentName="killed")["TrialComponentSummaries"]
result |= {
    "at the end": describe()["TrainingJobStatus"],
    "printed": "".join(printed),
    "runs": sorted(run["TrialComponentName"] for run in runs),
}
print(json.dumps(result))

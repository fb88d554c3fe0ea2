"""Stock SDK v2 code, as AWS documents it: scenario_v2.py IMAGE SOURCE DATA."""

import json
import sys
import time

import boto3
import sagemaker
from sagemaker.debugger import TensorBoardOutputConfig
from sagemaker.estimator import Estimator
from sagemaker.exceptions import UnexpectedStatusException
from sagemaker.pytorch import PyTorch

image, source, data = sys.argv[1:]
session = sagemaker.Session()
bucket = session.default_bucket()
client, logs = boto3.client("sagemaker"), boto3.client("logs")
common = {
    "image_uri": image,
    "role": "arn:aws:iam::111122223333:role/SageMakerRole",
    "instance_count": 1,
    "instance_type": "ml.g5.xlarge",
    "source_dir": source,
    "sagemaker_session": session,
}


def wait_for_line(job, text):
    group = "/aws/sagemaker/TrainingJobs"
    while True:
        found = logs.filter_log_events(logGroupName=group, logStreamNamePrefix=f"{job}/")
        if any(text in event["message"] for event in found["events"]):
            return
        time.sleep(0.5)


def wait_for_end(job):
    while True:
        description = client.describe_training_job(TrainingJobName=job)
        if description["TrainingJobStatus"] in ("Completed", "Failed", "Stopped"):
            return description
        time.sleep(0.5)


inputs = session.upload_data(data, bucket=bucket, key_prefix="points")
spot = Estimator(
    **common,
    entry_point="resume.py",
    use_spot_instances=True,
    max_run=600,
    max_wait=1200,
    checkpoint_s3_uri=f"s3://{bucket}/checkpoints-v2",
)
two_nodes = PyTorch(
    **{**common, "instance_count": 2},
    entry_point="two_nodes.py",
    distribution={"torch_distributed": {"enabled": True}},
)
stopped = Estimator(**common, entry_point="patient.py")
too_long = Estimator(**common, entry_point="patient.py", max_run=5)
train = PyTorch(  # as most notebooks ask for it: AWS's own image, by versions
    **{name: value for name, value in common.items() if name != "image_uri"},
    framework_version="2.3",
    py_version="py311",
    entry_point="train.py",
    hyperparameters={"epochs": 3, "lr": 0.05},
    metric_definitions=[{"Name": "loss", "Regex": "loss=([0-9.]+)"}],
    tensorboard_output_config=TensorBoardOutputConfig(s3_output_path=f"s3://{bucket}/tb"),
)
broken = Estimator(**common, entry_point="broken.py")

jobs = {
    "spot": spot,
    "two_nodes": two_nodes,
    "stopped": stopped,
    "too_long": too_long,
    "train": train,
    "broken": broken,
}
started = int(time.time())
for name, estimator in jobs.items():
    channels = {"train": inputs} if name == "train" else None
    estimator.fit(channels, wait=False, job_name=f"v2-{name.replace('_', '-')}-{started}")
wait_for_line(stopped.latest_training_job.name, "ready")
stopped.latest_training_job.stop()
results = {name: wait_for_end(job.latest_training_job.name) for name, job in jobs.items()}

train.logs()
print("model_data:", train.model_data)
try:
    broken.latest_training_job.wait(logs=False)
except UnexpectedStatusException as error:
    print("raised:", error)
print()
print(json.dumps(results, default=str))

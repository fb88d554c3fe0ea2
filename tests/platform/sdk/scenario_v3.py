"""Stock SDK v3 code, as AWS documents it: scenario_v3.py IMAGE SOURCE DATA."""

import json
import logging
import sys
import time

import boto3
from sagemaker.core.resources import TrainingJob
from sagemaker.core.utils.exceptions import FailedStatusError
from sagemaker.train import ModelTrainer
from sagemaker.train.configs import (
    CheckpointConfig,
    Compute,
    InputData,
    MetricDefinition,
    SourceCode,
    StoppingCondition,
    TensorBoardOutputConfig,
)
from sagemaker.train.distributed import Torchrun

image, source, data = sys.argv[1:]
logging.basicConfig(level=logging.INFO)  # the SDK logs what a container prints
client, logs = boto3.client("sagemaker"), boto3.client("logs")


def trainer(name, script, *, compute=None, **more):
    return ModelTrainer(
        training_image=image,
        role="arn:aws:iam::111122223333:role/SageMakerRole",
        base_job_name=f"v3-{name}",
        compute=compute or Compute(instance_type="ml.g5.xlarge", instance_count=1),
        source_code=SourceCode(source_dir=source, entry_script=script),
        **more,
    )


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


trainers = {
    "spot": trainer(
        "spot",
        "resume.py",
        compute=Compute(
            instance_type="ml.g5.xlarge", instance_count=1, enable_managed_spot_training=True
        ),
        stopping_condition=StoppingCondition(
            max_runtime_in_seconds=600, max_wait_time_in_seconds=1200
        ),
    ).with_checkpoint_config(CheckpointConfig()),
    "two_nodes": trainer(
        "two-nodes",
        "two_nodes.py",
        compute=Compute(instance_type="ml.g5.xlarge", instance_count=2),
        distributed=Torchrun(),
    ),
    "stopped": trainer("stopped", "patient.py"),
    "too_long": trainer(
        "too-long",
        "patient.py",
        stopping_condition=StoppingCondition(max_runtime_in_seconds=5),
    ),
    "train": trainer("train", "train.py", hyperparameters={"epochs": 3, "lr": 0.05})
    .with_metric_definitions([MetricDefinition(name="loss", regex="loss=([0-9.]+)")])
    .with_tensorboard_output_config(TensorBoardOutputConfig()),
    "broken": trainer("broken", "broken.py"),
}
names = {}
for name, one in trainers.items():
    inputs = [InputData(channel_name="train", data_source=data)] if name == "train" else None
    one.train(input_data_config=inputs, wait=False)
    names[name] = one._latest_training_job.training_job_name
wait_for_line(names["stopped"], "ready")
TrainingJob.get(names["stopped"]).stop()
results = {name: wait_for_end(job) for name, job in names.items()}

TrainingJob.get(names["train"]).wait(logs=True)
try:
    TrainingJob.get(names["broken"]).wait()
except FailedStatusError as error:
    print("raised:", error)
print()
print(json.dumps(results, default=str))

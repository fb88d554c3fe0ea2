"""Stock SDK v2 processing code, as AWS documents it: processing_v2.py SOURCE."""

import json
import sys
import time

import sagemaker
from sagemaker import get_execution_role
from sagemaker.network import NetworkConfig
from sagemaker.processing import (
    FrameworkProcessor,
    ProcessingInput,
    ProcessingOutput,
    Processor,
    ScriptProcessor,
)
from sagemaker.pytorch.estimator import PyTorch
from sagemaker.sklearn.processing import SKLearnProcessor

source, image = sys.argv[1:]
session, role = sagemaker.Session(), get_execution_role()
data = session.upload_string_as_file_body(
    "age,label\n20,0\n30,1\n40,0\n50,1\n", session.default_bucket(), "people/people.csv"
)

sklearn = SKLearnProcessor(
    framework_version="1.2-1", role=role, instance_type="ml.m5.xlarge", instance_count=1
)
began = time.monotonic()
sklearn.run(
    code=f"{source}/split.py",
    inputs=[ProcessingInput(source=data, destination="/opt/ml/processing/input")],
    outputs=[
        ProcessingOutput(output_name="train", source="/opt/ml/processing/train"),
        ProcessingOutput(output_name="test", source="/opt/ml/processing/test"),
    ],
    arguments=["--share", "0.5"],
    experiment_config={"ExperimentName": "people"},
)
seconds = time.monotonic() - began
train = sklearn.latest_job.outputs[0].destination

framework = FrameworkProcessor(
    estimator_cls=PyTorch,
    framework_version="2.3",
    py_version="py311",
    role=role,
    instance_type="ml.g5.xlarge",
    instance_count=1,
)
framework.run(code="clean.py", source_dir=source, arguments=["yaml"], logs=False)

failing = ScriptProcessor(
    image_uri=image, command=["python3"], role=role, instance_type="ml.m5.xlarge", instance_count=1
)
failing.run(code=f"{source}/clean.py", arguments=["no_such_module"], wait=False, logs=False)

isolated = Processor(
    image_uri=image,
    role=role,
    instance_type="ml.m5.xlarge",
    instance_count=2,
    entrypoint=["sh", "-c", "while true; do sleep 1; done"],
    network_config=NetworkConfig(enable_network_isolation=True),
)
isolated.run(wait=False, logs=False)
while (
    session.describe_processing_job(isolated.latest_job.job_name).get("ProcessingStartTime")
    is None
):
    time.sleep(0.5)
isolated.latest_job.stop()


def wait_for_end(processor):
    while True:
        found = session.describe_processing_job(processor.latest_job.job_name)
        if found["ProcessingJobStatus"] in ("Completed", "Failed", "Stopped"):
            return {
                name: found.get(name)
                for name in (
                    "ProcessingJobName",
                    "ProcessingJobStatus",
                    "FailureReason",
                    "ExitMessage",
                )
            }
        time.sleep(0.5)


print(
    json.dumps(
        {
            "train": train,
            "seconds": seconds,
            "sklearn": wait_for_end(sklearn),
            "framework": wait_for_end(framework),
            "failing": wait_for_end(failing),
            "isolated": wait_for_end(isolated),
        }
    )
)

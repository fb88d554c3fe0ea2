"""Stock SDK v3 processing code: processing_v3.py SOURCE IMAGE."""

import json
import sys
import time

from sagemaker.core.helper.session_helper import Session, get_execution_role
from sagemaker.core.processing import FrameworkProcessor, ScriptProcessor
from sagemaker.core.shapes import (
    ProcessingInput,
    ProcessingOutput,
    ProcessingS3Input,
    ProcessingS3Output,
)

source, image = sys.argv[1:]
session, role = Session(), get_execution_role()
bucket = session.default_bucket()
data = session.upload_string_as_file_body(
    "age,label\n20,0\n30,1\n40,0\n50,1\n", bucket, "people/people.csv"
)
SKLEARN = "683313688378.dkr.ecr.us-east-1.amazonaws.com/sagemaker-scikit-learn:1.2-1-cpu-py3"


def give(name, uri, place):
    s3 = ProcessingS3Input(
        s3_uri=uri, local_path=place, s3_data_type="S3Prefix", s3_input_mode="File"
    )
    return ProcessingInput(input_name=name, s3_input=s3)


def take(name, place):
    s3 = ProcessingS3Output(
        s3_uri=f"s3://{bucket}/v3/{name}", local_path=place, s3_upload_mode="EndOfJob"
    )
    return ProcessingOutput(output_name=name, s3_output=s3)


script = ScriptProcessor(
    image_uri=SKLEARN,
    command=["python3"],
    role=role,
    instance_type="ml.m5.xlarge",
    instance_count=1,
)
began = time.monotonic()
script.run(
    code=f"{source}/split.py",
    inputs=[give("people", data, "/opt/ml/processing/input")],
    outputs=[take("train", "/opt/ml/processing/train"), take("test", "/opt/ml/processing/test")],
    arguments=["--share", "0.5"],
)
seconds = time.monotonic() - began

framework = FrameworkProcessor(
    image_uri=image,
    command=["python3"],
    role=role,
    instance_type="ml.m5.xlarge",
    instance_count=1,
)
framework.run(code="clean.py", source_dir=source, arguments=["yaml"], logs=False)


def describe(processor):
    name = processor.latest_job.processing_job_name
    found = session.sagemaker_client.describe_processing_job(ProcessingJobName=name)
    members = ("ProcessingJobName", "ProcessingJobStatus", "FailureReason", "ExitMessage")
    return {name: found.get(name) for name in members}


print(
    json.dumps(
        {
            "train": f"s3://{bucket}/v3/train",
            "seconds": seconds,
            "sklearn": describe(script),
            "framework": describe(framework),
        }
    )
)

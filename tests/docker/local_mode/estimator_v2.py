"""Stock local mode of SDK v2: estimator_v2.py IMAGE SOURCE DATA WORK INSTANCES…"""

import json
import logging
import sys
from pathlib import Path

import boto3
from sagemaker.estimator import Estimator
from sagemaker.local import LocalSession

image, source, data, work, *instances = sys.argv[1:]
logging.getLogger("sagemaker.telemetry").setLevel(logging.CRITICAL)
models = {}
for count in instances:
    out = Path(work, f"out-{count}")
    session = LocalSession(boto_session=boto3.Session(region_name="us-east-1"))
    session.config = {"local": {"local_code": True, "container_root": work}}
    estimator = Estimator(
        image_uri=image,
        role="arn:aws:iam::111111111111:role/dummy",
        instance_count=int(count),
        instance_type="local",
        entry_point="train.py",
        source_dir=source,
        hyperparameters={"epochs": 2},
        output_path=f"file://{out}",
        sagemaker_session=session,
    )
    estimator.fit({"train": f"file://{data}"})
    models[count] = estimator.model_data.removeprefix("file://")
print()
print(json.dumps({"models": models}))

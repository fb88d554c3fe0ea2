"""A notebook's try before it pays for an instance: local mode of SDK v2, data and code in S3."""

import json
import sys
import tarfile

import sagemaker
from sagemaker import get_execution_role
from sagemaker.pytorch import PyTorch
from sagemaker.s3 import S3Downloader

source, image, folder = sys.argv[1:]
session = sagemaker.Session()
words = session.upload_string_as_file_body(
    "coal", session.default_bucket(), "local-mode/words.txt"
)
estimator = PyTorch(
    image_uri=image,
    role=get_execution_role(),
    instance_count=1,
    instance_type="local",
    entry_point="train.py",
    source_dir=source,
    hyperparameters={"epochs": 2},
)
estimator.fit({"train": words})
S3Downloader.download(estimator.model_data, folder)
with tarfile.open(f"{folder}/model.tar.gz") as archive:
    names = sorted(m.name.removeprefix("./") for m in archive if m.isfile())
print()
print(json.dumps({"names": names}))

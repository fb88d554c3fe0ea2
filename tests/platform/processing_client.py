"""Processing jobs as a client submits them."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent
from typing import Any

from stoker.platform.model.root import DEFAULT_BUCKET
from tests.platform.local_server import ENDED, ROLE, LocalServer, wait_until

GROUP = "/aws/sagemaker/ProcessingJobs"
IN, OUT = "/opt/ml/processing/input", "/opt/ml/processing/output"


@dataclass(frozen=True)
class Client:
    """What a user of boto3 does."""

    server: LocalServer

    @property
    def sagemaker(self) -> Any:
        return self.server.boto("sagemaker")

    def request(self, name: str, script: str, **parts: Any) -> dict[str, Any]:
        """A script that comes as an input, as both SDKs send it."""
        code = self.server.put(f"code/{name}/run.py", dedent(script))
        app = {
            "ImageUri": self.server.image,
            "ContainerEntrypoint": ["python3", f"{IN}/code/run.py"],
            **parts.pop("AppSpecification", {}),
        }
        cluster = {"InstanceType": "ml.m5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}
        cluster |= parts.pop("ClusterConfig", {})
        inputs = [give("code", code, f"{IN}/code"), *parts.pop("ProcessingInputs", [])]
        return {
            "ProcessingJobName": name,
            "RoleArn": ROLE,
            "AppSpecification": app,
            "ProcessingResources": {"ClusterConfig": cluster},
            "ProcessingInputs": inputs,
            **parts,
        }

    def submit(self, name: str, script: str, **parts: Any) -> str:
        self.sagemaker.create_processing_job(**self.request(name, script, **parts))
        return name

    def describe(self, name: str) -> dict[str, Any]:
        return self.sagemaker.describe_processing_job(ProcessingJobName=name)

    def wait(self, name: str) -> dict[str, Any]:
        wait_until(lambda: self.describe(name)["ProcessingJobStatus"] in ENDED, f"{name} ends")
        return self.describe(name)

    def run(self, name: str, script: str, **parts: Any) -> dict[str, Any]:
        return self.wait(self.submit(name, script, **parts))

    def log(self, name: str) -> str:
        found = self.server.boto("logs").filter_log_events(
            logGroupName=GROUP, logStreamNamePrefix=f"{name}/"
        )
        return "\n".join(event["message"] for event in found["events"])


def give(name: str, uri: str, place: str, **more: str) -> dict[str, Any]:
    s3 = {"S3Uri": uri, "LocalPath": place, "S3DataType": "S3Prefix", "S3InputMode": "File"}
    return {"InputName": name, "S3Input": {**s3, **more}}


def take(
    name: str,
    place: str = OUT,
    mode: str = "EndOfJob",
    key: str = "",
    bucket: str = DEFAULT_BUCKET,
) -> dict[str, Any]:
    uri = f"s3://{bucket}/{key or name}"
    s3 = {"S3Uri": uri, "LocalPath": place, "S3UploadMode": mode}
    return {"OutputName": name, "S3Output": s3}

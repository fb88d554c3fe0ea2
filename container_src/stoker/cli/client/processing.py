"""Processing jobs of the platform, for the commands that show, follow and stop jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stoker.cli.client.display import file_of, without_traceback
from stoker.cli.client.platform_api import Api, open_api
from stoker.machine.failures import UsageRefused
from stoker.machine.units import show_elapsed
from stoker.platform.model.root import Root

_INSTANCES = ("InstanceType", "InstanceCount", "InstancePreferences")


class ProcessingApi(Api):
    """The calls of `Api` for processing jobs; a description has the members that they share."""

    log_group = "/aws/sagemaker/ProcessingJobs"

    def find(self, job: str) -> dict[str, Any] | None:
        """DescribeProcessingJob; None if there is no such job."""
        try:
            return self.call("sagemaker", "DescribeProcessingJob", ProcessingJobName=job)
        except UsageRefused:
            return None

    def describe(self, job: str) -> dict[str, Any]:
        """DescribeProcessingJob, with the members of a training job that commands read."""
        found = self.find(job)
        if found is None:
            raise self._unknown_job(job)
        return _as_training_job(found)

    def stop(self, job: str) -> None:
        """StopProcessingJob."""
        status = self.describe(job)["TrainingJobStatus"]
        try:
            self.call("sagemaker", "StopProcessingJob", ProcessingJobName=job)
        except UsageRefused as error:
            raise UsageRefused(
                f"{job} cannot be stopped: it is {status}", fix="nothing: it has ended"
            ) from error

    def delete_job(self, job: str) -> None:
        """DeleteProcessingJob: its record and its log."""
        self.call("sagemaker", "DeleteProcessingJob", ProcessingJobName=job)

    def list_jobs(self) -> Iterator[dict[str, Any]]:
        """All processing jobs, the newest first."""
        order = {"SortBy": "CreationTime", "SortOrder": "Descending", "MaxResults": 100}
        for page in self.pages("sagemaker", "ListProcessingJobs", **order):
            yield from (_as_training_job(each) for each in page["ProcessingJobSummaries"])


def open_api_of(root: Root, job: str) -> Api:
    """What answers for a job: of training, unless only a processing job has this name."""
    api = open_api(root)
    try:
        api.call("sagemaker", "DescribeTrainingJob", TrainingJobName=job)
    except UsageRefused:
        processing = ProcessingApi.over(api)
        if processing.find(job) is not None:
            return processing
    return api


def _as_training_job(found: Mapping[str, Any]) -> dict[str, Any]:
    status = found["ProcessingJobStatus"]
    cluster = found.get("ProcessingResources", {}).get("ClusterConfig", {})
    begun = found.get("ProcessingStartTime", found["CreationTime"])
    phase = {"Status": status, "StartTime": begun, "StatusMessage": found.get("ExitMessage", "")}
    if "ProcessingEndTime" in found:
        phase["EndTime"] = found["ProcessingEndTime"]
    return {
        **found,
        "TrainingJobName": found["ProcessingJobName"],
        "TrainingJobStatus": status,
        "SecondaryStatus": status,
        "SecondaryStatusTransitions": [phase],
        "AlgorithmSpecification": {},
        "ResourceConfig": {name: cluster[name] for name in _INSTANCES if name in cluster},
    }


def render_processing(description: Mapping[str, Any], root: Root) -> list[str]:
    """How a processing job ended, and where its outputs are."""
    rows = [
        ("job", f"{description['ProcessingJobName']} (processing)"),
        ("status", description["ProcessingJobStatus"]),
    ]
    if reason := description.get("FailureReason"):
        rows.append(("reason", without_traceback(reason)))
    if message := description.get("ExitMessage"):
        rows.append(("message", message))
    if "ProcessingEndTime" in description and "ProcessingStartTime" in description:
        seconds = description["ProcessingEndTime"] - description["ProcessingStartTime"]
        rows.append(("time", f"{show_elapsed(seconds.total_seconds())} of processing"))
    for output in description.get("ProcessingOutputConfig", {}).get("Outputs", ()):
        uri = output.get("S3Output", {}).get("S3Uri", "")
        folder = root.s3_dir / uri.removeprefix("s3://")
        place = f"\n{folder}" if folder.is_dir() or file_of(uri, root) else " (empty)"
        rows.append((output["OutputName"], f"{uri}{place}"))
    width = max(len(name) for name, _ in rows)
    indent = "\n" + " " * (width + 3)
    return [f"  {name:<{width}} {text}".replace("\n", indent) for name, text in rows]

"""The operations of processing jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stoker.platform.api.service import Operation
from stoker.platform.api.shared_operations import JobOperations
from stoker.platform.jobs.describe_processing import describe, list_jobs, show_name
from stoker.platform.jobs.state import JobRecord
from stoker.platform.model.processing_request import make_key, make_processing_arn


class ProcessingJobs:
    """The operations of processing jobs; safe to call from several threads."""

    def __init__(self, jobs: JobOperations) -> None:
        self._jobs = jobs

    def operations(self) -> dict[str, Operation]:
        """The rows of the service's table."""
        return {
            "CreateProcessingJob": self._create,
            "DescribeProcessingJob": lambda params: describe(self._find(params)),
            "ListProcessingJobs": lambda params: list_jobs(self._jobs.store, params),
            "StopProcessingJob": self._stop,
            "DeleteProcessingJob": self._delete,
        }

    def _create(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"ProcessingJobArn": make_processing_arn(show_name(self._jobs.create(params)))}

    def _stop(self, params: dict[str, Any]) -> dict[str, Any]:
        self._jobs.stop(self._find(params), "processing")
        return {}

    def _delete(self, params: dict[str, Any]) -> dict[str, Any]:
        self._jobs.delete(self._find(params), "processing")
        return {}

    def _find(self, params: Mapping[str, Any]) -> JobRecord:
        return self._jobs.find(make_key(params["ProcessingJobName"]))

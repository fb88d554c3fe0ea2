"""The operations of processing jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from stoker.platform.api.service import Operation
from stoker.platform.data.confined import remove_tree
from stoker.platform.jobs.context import JobContext
from stoker.platform.jobs.state import JobRecord
from stoker.platform.jobs.store import Store, UnknownJob
from stoker.platform.jobs.submission import create_job
from stoker.platform.jobs.supervisor import JobSupervisor
from stoker.platform.model.faults import resource_in_use, validation
from stoker.platform.model.processing_request import make_key, make_processing_arn
from stoker.platform.processing.describe import describe, list_jobs, show_name


class ProcessingJobs:
    """The operations of processing jobs; safe to call from several threads."""

    def __init__(
        self,
        context: JobContext,
        store: Store,
        supervisor: JobSupervisor,
        *,
        make_notes: Callable[[Mapping[str, Any]], tuple[str, ...]],
    ) -> None:
        """Args: make_notes: lines for the log of a job, from its request."""
        self._context = context
        self._store = store
        self._supervisor = supervisor
        self._make_notes = make_notes

    def operations(self) -> dict[str, Operation]:
        """The rows of the service's table."""
        return {
            "CreateProcessingJob": self._create,
            "DescribeProcessingJob": lambda params: describe(self._find(params)),
            "ListProcessingJobs": lambda params: list_jobs(self._store, params),
            "StopProcessingJob": self._stop,
            "DeleteProcessingJob": self._delete,
        }

    def _create(self, params: dict[str, Any]) -> dict[str, Any]:
        record = create_job(
            params,
            context=self._context,
            store=self._store,
            supervisor=self._supervisor,
            notes=self._make_notes(params),
        )
        return {"ProcessingJobArn": make_processing_arn(show_name(record))}

    def _stop(self, params: dict[str, Any]) -> dict[str, Any]:
        record = self._find(params)
        if record.stage == "ended":
            raise validation(
                "The request was rejected because the processing job is in status "
                f"{record.status}."
            )
        self._supervisor.stop(record.name)
        return {}

    def _delete(self, params: dict[str, Any]) -> dict[str, Any]:
        """The record and the log; what is in S3 stays, as in the service."""
        record = self._find(params)
        if record.stage != "ended":
            raise resource_in_use(
                f"The processing job {show_name(record)} is {record.status} and cannot be deleted;"
                " fix: stop it and wait until it has ended"
            )
        self._context.streams.remove(record.name)
        with suppress(FileNotFoundError):
            remove_tree(self._context.root.kept_dir(record.name))
        self._store.delete(record.name)
        return {}

    def _find(self, params: Mapping[str, Any]) -> JobRecord:
        key = make_key(params["ProcessingJobName"])
        try:
            return self._store.read(key)
        except UnknownJob as error:
            # `load_run()` in a job knows the name from the ARN, which is in lower case.
            if found := self._store.find_lower(key.lower()):
                return found
            raise validation("Requested resource not found.") from error

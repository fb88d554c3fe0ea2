"""What the operations of training jobs and of processing jobs have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Literal

from stoker.platform.data.confined import remove_tree
from stoker.platform.jobs.context import JobContext
from stoker.platform.jobs.describe_processing import show_name
from stoker.platform.jobs.state import JobRecord
from stoker.platform.jobs.store import Store, UnknownJob
from stoker.platform.jobs.submission import create_job
from stoker.platform.jobs.supervisor import JobSupervisor
from stoker.platform.model.faults import resource_in_use, validation


class JobOperations:
    """Creates, finds, stops and deletes jobs; safe to call from several threads."""

    def __init__(
        self,
        context: JobContext,
        store: Store,
        supervisor: JobSupervisor,
        *,
        make_notes: Callable[[Mapping[str, Any]], tuple[str, ...]],
    ) -> None:
        """Args: make_notes: lines for the log of a job, from its request."""
        self.context = context
        self.store = store
        self.supervisor = supervisor
        self._make_notes = make_notes

    def create(self, params: dict[str, Any]) -> JobRecord:
        """Accept a job.

        Raises:
            ApiFault: it is refused.
        """
        return create_job(
            params,
            context=self.context,
            store=self.store,
            supervisor=self.supervisor,
            notes=self._make_notes(params),
        )

    def find(self, name: str) -> JobRecord:
        """A job by the name in the store.

        Raises:
            ApiFault: there is none.
        """
        try:
            return self.store.read(name)
        except UnknownJob as error:
            # `load_run()` in a job knows the name from the ARN, which is in lower case.
            if found := self.store.find_lower(name):
                return found
            raise validation("Requested resource not found.") from error

    def stop(self, record: JobRecord, kind: Literal["training", "processing"]) -> None:
        """End a job that runs.

        Raises:
            ApiFault: it has ended.
        """
        require_unfinished(record, kind)
        self.supervisor.stop(record.name)

    def delete(self, record: JobRecord, kind: Literal["training", "processing"]) -> None:
        """Remove the record, the log and the metrics; what is in S3 stays, as in the service.

        Raises:
            ApiFault: it has not ended.
        """
        if record.stage != "ended":
            raise resource_in_use(
                f"The {kind} job {show_name(record)} is {record.status} and cannot be deleted; "
                "fix: stop it and wait until it has ended"
            )
        self.store.make_room()
        self.context.streams.remove(record.name)
        self.context.series.remove(record.name)
        with suppress(FileNotFoundError):
            remove_tree(self.context.root.kept_dir(record.name))
        self.context.root.run_file(record.name).unlink(missing_ok=True)
        self.store.delete(record.name)


def require_unfinished(record: JobRecord, kind: Literal["training", "processing"]) -> None:
    """Raises ApiFault if a job has ended."""
    if record.stage == "ended":
        raise validation(
            f"The request was rejected because the {kind} job is in status {record.status}."
        )

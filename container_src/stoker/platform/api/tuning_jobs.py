"""The operations of tuning jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stoker.platform.api.service import Operation
from stoker.platform.model.faults import resource_not_found, validation
from stoker.platform.model.paging import make_page
from stoker.platform.tuning.describe import TuningDescriptions, make_arn
from stoker.platform.tuning.state import TuningRecord
from stoker.platform.tuning.store import TuningStore
from stoker.platform.tuning.supervisor import TuningSupervisor

Answer = dict[str, Any]

_ORDERS = {
    "Name": "HyperParameterTuningJobName",
    "Status": "HyperParameterTuningJobStatus",
    "CreationTime": "CreationTime",
}
_TRIAL_ORDERS = {
    "Name": "TrainingJobName",
    "Status": "TrainingJobStatus",
    "CreationTime": "CreationTime",
}


class TuningJobs:
    """The operations of tuning jobs; safe to call from several threads."""

    def __init__(
        self, store: TuningStore, supervisor: TuningSupervisor, descriptions: TuningDescriptions
    ) -> None:
        self._store = store
        self._supervisor = supervisor
        self._descriptions = descriptions

    def operations(self) -> dict[str, Operation]:
        """The rows of the service's table."""
        return {
            "CreateHyperParameterTuningJob": self._create,
            "DescribeHyperParameterTuningJob": lambda params: self._descriptions.describe(
                self._find(params)
            ),
            "ListHyperParameterTuningJobs": self._list,
            "ListTrainingJobsForHyperParameterTuningJob": self._list_trials,
            "StopHyperParameterTuningJob": self._stop,
            "DeleteHyperParameterTuningJob": self._delete,
        }

    def _create(self, params: Answer) -> Answer:
        record = self._supervisor.create(params)
        return {"HyperParameterTuningJobArn": make_arn(record.name)}

    def _stop(self, params: Answer) -> Answer:
        record = self._find(params)
        if record.is_over:
            raise validation(
                "The request was rejected because the hyperparameter tuning job is in status "
                f"{record.status}."
            )
        self._supervisor.stop(record.name)
        return {}

    def _delete(self, params: Answer) -> Answer:
        record = self._find(params)
        if not record.is_over:
            raise validation(
                f"The hyperparameter tuning job {record.name} is in status {record.status}. Stop "
                "it and wait for its end before you delete it."
            )
        self._store.delete(record.name)
        return {}

    def _list(self, params: Answer) -> Answer:
        kept = [record for record in self._store.read_all() if _matches(record, params)]
        rows = [self._descriptions.summarise(record) for record in kept]
        order = _ORDERS[params.get("SortBy", "CreationTime")]
        page = make_page(rows, params, key=lambda row: (row[order], row[_ORDERS["Name"]]))
        return page.answer("HyperParameterTuningJobSummaries")

    def _list_trials(self, params: Answer) -> Answer:
        rows = self._descriptions.list_trials(self._find(params))
        wanted = params.get("StatusEquals")
        kept = [row for row in rows if wanted in (None, row["TrainingJobStatus"])]
        by = params.get("SortBy", "Name")
        key: Callable[[Mapping[str, Any]], Any]
        if by == "FinalObjectiveMetricValue":
            # The service lists only those that have one.
            kept = [row for row in kept if _OBJECTIVE in row]
            key = _objective_key
        else:
            field = _TRIAL_ORDERS[by]
            key = lambda row: (row[field], row["TrainingJobName"])  # noqa: E731 - one of two keys
        return make_page(kept, params, key=key).answer("TrainingJobSummaries")

    def _find(self, params: Mapping[str, Any]) -> TuningRecord:
        name = params["HyperParameterTuningJobName"]
        record = self._store.find(name)
        if record is None:
            raise resource_not_found(
                f"Amazon SageMaker can't find a tuning job called {name}. Type another name."
            )
        return record


_OBJECTIVE = "FinalHyperParameterTuningJobObjectiveMetric"


def _objective_key(row: Mapping[str, Any]) -> tuple[float, str]:
    return row[_OBJECTIVE]["Value"], row["TrainingJobName"]


def _matches(record: TuningRecord, params: Mapping[str, Any]) -> bool:
    return (
        params.get("NameContains", "").lower() in record.name.lower()
        and params.get("StatusEquals", record.status) == record.status
        and params.get("CreationTimeAfter", record.created) <= record.created
        and params.get("CreationTimeBefore", record.created) >= record.created
        and params.get("LastModifiedTimeAfter", record.modified) <= record.modified
        and params.get("LastModifiedTimeBefore", record.modified) >= record.modified
    )

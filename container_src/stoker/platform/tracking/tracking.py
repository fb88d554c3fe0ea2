"""Tracking as one part: the store of a root, the recorder of its jobs, and their operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stoker.platform.jobs.context import JobContext
from stoker.platform.tracking.experiments import ExperimentOperations
from stoker.platform.tracking.job_facts import JobSource
from stoker.platform.tracking.jobs_as_runs import JobRecorder, describe_experiment_config
from stoker.platform.tracking.lineage import LineageOperations
from stoker.platform.tracking.metrics import RunMetricOperations
from stoker.platform.tracking.mlflow import MlflowOperations
from stoker.platform.tracking.search import Documents, SearchOperations
from stoker.platform.tracking.tracked import (
    Operation,
    add_experiment,
    change_tags,
    find_or_add,
    list_tags,
    parse_arn,
    read_tags,
)
from stoker.platform.tracking.trial_components import TrialComponentOperations
from stoker.tracking.records import Experiment
from stoker.tracking.store import RunStore


class Tracking:
    """Safe to use from several threads."""

    def __init__(self, context: JobContext, sources: Sequence[JobSource]) -> None:
        """Args: sources: where each kind of job tells what has changed; parents first."""
        self._runs = RunStore(context.root.runs_database)
        self.recorder = JobRecorder(context, sources, self._runs)

    def start(self) -> None:
        """Begin to record jobs."""
        self.recorder.start()

    def close(self) -> None:
        """End the recorder and close the store."""
        self.recorder.stop()
        self._runs.close()

    def describe_experiment_config(self, request: Mapping[str, Any]) -> tuple[str, ...]:
        """What the ExperimentConfig of a new job changes, or fails to do, in one line each."""
        config = request.get("ExperimentConfig", {})
        return tuple(describe_experiment_config(self._runs, config))

    def describe_mlflow(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """What DescribeTrainingJob adds for a job with an MlflowConfig."""
        run = self.recorder.find_run(job["TrainingJobName"]) if "MlflowConfig" in job else None
        if run is None:
            return {}
        name = self.recorder.find_experiment(run)
        experiment = find_or_add(
            self._runs, Experiment, name, lambda: add_experiment(self._runs, name)
        )
        return {
            "MlflowDetails": {"MlflowExperimentId": experiment.id, "MlflowRunId": run.id},
        }

    def operations(self, documents: Mapping[str, Documents]) -> dict[str, Operation]:
        """Of the service `sagemaker`. Args: documents: what else can be searched."""
        search = SearchOperations(self._runs, documents)
        parts = (
            ExperimentOperations(self._runs),
            TrialComponentOperations(self._runs),
            LineageOperations(self._runs),
            search,
        )
        return {
            name: self._after_look(operation)
            for part in parts
            for name, operation in part.operations().items()
        }

    def metric_operations(self) -> dict[str, Operation]:
        """Of the service `sagemaker-metrics`."""
        return self._after_look_unless_logging(RunMetricOperations(self._runs).operations())

    def mlflow_operations(self) -> dict[str, Operation]:
        """Of the MLflow face."""
        return self._after_look_unless_logging(MlflowOperations(self._runs).operations())

    def tag_operations(self, others: Mapping[str, Operation]) -> dict[str, Operation]:
        """AddTags, ListTags and DeleteTags of what is tracked; `others` answer for the rest."""

        def add(params: dict[str, Any]) -> Mapping[str, Any]:
            new = read_tags(params["Tags"])
            arn = params["ResourceArn"]
            return {"Tags": change_tags(self._runs, arn, lambda tags: {**tags, **new})}

        def list_(params: dict[str, Any]) -> Mapping[str, Any]:
            return {"Tags": list_tags(self._runs, params["ResourceArn"])}

        def delete(params: dict[str, Any]) -> Mapping[str, Any]:
            gone = set(params["TagKeys"])
            change_tags(
                self._runs,
                params["ResourceArn"],
                lambda tags: {key: value for key, value in tags.items() if key not in gone},
            )
            return {}

        own = {"AddTags": add, "ListTags": list_, "DeleteTags": delete}
        return {name: _choose(own[name], others[name]) for name in own}

    def _after_look_unless_logging(self, rows: Mapping[str, Operation]) -> dict[str, Operation]:
        """A client that logs ten values at a time has found its run before."""
        is_logging = {name: "/log-" in name or name == "BatchPutMetrics" for name in rows}
        return {
            name: operation if is_logging[name] else self._after_look(operation)
            for name, operation in rows.items()
        }

    def _after_look(self, operation: Operation) -> Operation:
        """Clients that have just seen a job's end expect to find it here."""

        def answer(params: dict[str, Any]) -> Mapping[str, Any]:
            self.recorder.look()
            return operation(params)

        return answer


def _choose(own: Operation, other: Operation) -> Operation:
    return lambda params: (own if parse_arn(params["ResourceArn"]) else other)(params)

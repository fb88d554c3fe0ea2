"""Tuning jobs and their trials as the API returns them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stoker.platform.jobs.describe import make_arn as make_training_arn
from stoker.platform.jobs.series import MetricSeries
from stoker.platform.jobs.state import JobRecord
from stoker.platform.jobs.store import Store, UnknownJob
from stoker.platform.model.root import ACCOUNT, REGION
from stoker.platform.tuning.request import TuningRequest, parse_tuning_request
from stoker.platform.tuning.state import ParentTrial, TuningRecord
from stoker.platform.tuning.trial_request import OBJECTIVE_KEY, read_resources
from stoker.platform.tuning.trials import TrialReader, TrialView, find_best_view, list_objectives
from stoker.tuning.completion import count_not_improving
from stoker.tuning.study import TrialState
from stoker.tuning.warm_start import WarmStart

_RANGES = ("IntegerParameterRanges", "ContinuousParameterRanges", "CategoricalParameterRanges")
_MOST_READERS = 20
_ECHOED = ("TrainingJobDefinitions", "WarmStartConfig", "Autotune")


def make_arn(name: str) -> str:
    """A tuning job's ARN; the service writes the name in lower case."""
    return f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:hyper-parameter-tuning-job/{name.lower()}"


class TuningDescriptions:
    """Makes answers about tuning jobs from what is stored."""

    def __init__(self, store: Store, series: MetricSeries) -> None:
        self._store = store
        self._series = series
        self._readers: dict[tuple[str, float], TrialReader] = {}
        """What has ended is read once, however often a search of many trials is described."""

    def describe(self, record: TuningRecord) -> dict[str, Any]:
        """DescribeHyperParameterTuningJob's answer."""
        request = parse_tuning_request(record.request)
        views = self._read(record, request)
        answer = {
            **self._summarise(record, views),
            **_echo(record, request),
            "TuningJobCompletionDetails": _describe_completion(record, request, views),
            "ConsumedResources": {"RuntimeInSeconds": sum(map(_runtime, views))},
        }
        # Lists have these two at the top, a description has them in the config.
        del answer["Strategy"], answer["ResourceLimits"]
        if record.failure_reason:
            answer["FailureReason"] = record.failure_reason
        best = find_best_view(request, views)
        if best is not None:
            answer["BestTrainingJob"] = make_summary(record, request, best)
        overall = self._find_overall(record, request, best)
        if overall is not None:
            answer["OverallBestTrainingJob"] = overall
        return answer

    def summarise(self, record: TuningRecord) -> dict[str, Any]:
        """One entry of ListHyperParameterTuningJobs' answer."""
        request = parse_tuning_request(record.request)
        return self._summarise(record, self._read(record, request))

    def list_trials(self, record: TuningRecord) -> list[dict[str, Any]]:
        """The entries of ListTrainingJobsForHyperParameterTuningJob's answer."""
        request = parse_tuning_request(record.request)
        views = self._read(record, request)
        return [make_summary(record, request, view) for view in views]

    def _read(self, record: TuningRecord, request: TuningRequest) -> list[TrialView]:
        key = (record.name, record.created)
        reader = self._readers.pop(key, None) or TrialReader(self._store, self._series)
        self._readers[key] = reader
        for oldest in list(self._readers)[:-_MOST_READERS]:
            self._readers.pop(oldest, None)
        return reader.read(record, request)

    def _summarise(self, record: TuningRecord, views: Sequence[TrialView]) -> dict[str, Any]:
        config = record.request["HyperParameterTuningJobConfig"]
        summary: dict[str, Any] = {
            "HyperParameterTuningJobName": record.name,
            "HyperParameterTuningJobArn": make_arn(record.name),
            "HyperParameterTuningJobStatus": record.status,
            "Strategy": config["Strategy"],
            "CreationTime": record.created,
            "LastModifiedTime": record.modified,
            "TrainingJobStatusCounters": _count_statuses(views),
            "ObjectiveStatusCounters": _count_objectives(views),
            "ResourceLimits": config["ResourceLimits"],
        }
        if record.ended is not None:
            summary["HyperParameterTuningEndTime"] = record.ended
        return summary

    def _find_overall(
        self, record: TuningRecord, request: TuningRequest, best: TrialView | None
    ) -> dict[str, Any] | None:
        """The best of this tuning job and its parents, where their objectives are comparable."""
        if request.warm_start is not WarmStart.IDENTICAL:
            return None
        goal = request.definitions[0].goal
        parent = min(record.earlier, key=lambda t: goal.cost(t.objective), default=None)
        if parent is None:
            return make_summary(record, request, best) if best is not None else None
        ours = best.trial.objective if best is not None else None
        if (
            best is not None
            and ours is not None
            and goal.cost(ours) <= goal.cost(parent.objective)
        ):
            return make_summary(record, request, best)
        return self._describe_parent(request, parent)

    def _describe_parent(self, request: TuningRequest, trial: ParentTrial) -> dict[str, Any]:
        try:
            job = self._store.read(trial.job)
        except UnknownJob:
            job = None
        return {
            **_describe_job(trial.job, job, trial.parent),
            "TunedHyperParameters": dict(trial.parameters),
            **_describe_objective(request, 0, trial.objective),
            "ObjectiveStatus": "Succeeded",
        }


def make_summary(record: TuningRecord, request: TuningRequest, view: TrialView) -> dict[str, Any]:
    """One training job of a tuning job."""
    summary = {
        **_describe_job(view.record.job, view.job, record.name, created=record.created),
        "TunedHyperParameters": dict(view.record.parameters),
        "ObjectiveStatus": _objective_status(view),
    }
    if view.job is None and view.is_over:
        summary["TrainingJobStatus"] = view.record.status or "Failed"
    if view.record.refusal:
        summary |= {"TrainingJobStatus": "Failed", "FailureReason": view.record.refusal}
    if name := request.definitions[view.record.definition].name:
        summary["TrainingJobDefinitionName"] = name
    if view.trial.value is not None and view.trial.state is not TrialState.FAILED:
        summary |= _describe_objective(request, view.record.definition, view.trial.value)
    return summary


def _describe_job(
    name: str, job: JobRecord | None, tuning_job: str, *, created: float = 0.0
) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "TrainingJobName": name,
        "TrainingJobArn": make_training_arn(name),
        "TuningJobName": tuning_job,
        "CreationTime": job.created if job else created,
        "TrainingJobStatus": job.status if job else "InProgress",
    }
    if job is None:
        return shown
    if job.training_started is not None:
        shown["TrainingStartTime"] = job.training_started
    if job.training_ended is not None:
        shown["TrainingEndTime"] = job.training_ended
    if job.status == "Failed" and job.verdict is not None:
        shown["FailureReason"] = job.verdict.failure_reason
    return shown


def _describe_objective(request: TuningRequest, definition: int, value: float) -> dict[str, Any]:
    defined = request.definitions[definition]
    metric = {"Type": defined.goal.value, "MetricName": defined.metric, "Value": value}
    return {"FinalHyperParameterTuningJobObjectiveMetric": metric}


def _objective_status(view: TrialView) -> str:
    if not view.is_over:
        return "Pending"
    return "Succeeded" if view.trial.objective is not None else "Failed"


def _count_objectives(views: Sequence[TrialView]) -> dict[str, int]:
    statuses = [_objective_status(view) for view in views]
    return {status: statuses.count(status) for status in ("Succeeded", "Pending", "Failed")}


def _count_statuses(views: Sequence[TrialView]) -> dict[str, int]:
    counters = dict.fromkeys(
        ("Completed", "InProgress", "RetryableError", "NonRetryableError", "Stopped"), 0
    )
    for view in views:
        counters[_counter(view)] += 1
    return counters


def _counter(view: TrialView) -> str:
    if not view.is_over:
        return "InProgress"
    if view.trial.state is not TrialState.FAILED:
        return view.trial.state.value
    # Only faults of the service itself can be retried.
    is_internal = view.failure.startswith("InternalServerError")
    return "RetryableError" if is_internal else "NonRetryableError"


def _runtime(view: TrialView) -> int:
    if view.job is None or view.job.training_started is None:
        return 0
    ended = view.job.training_ended or view.job.modified
    return max(0, round(ended - view.job.training_started))


def _describe_completion(
    record: TuningRecord, request: TuningRequest, views: Sequence[TrialView]
) -> dict[str, Any]:
    ended = list_objectives(request, views)
    idle = count_not_improving(request.definitions[0].goal, ended)
    details: dict[str, Any] = {"NumberOfTrainingJobsObjectiveNotImproving": idle}
    if record.converged is not None:
        details["ConvergenceDetectedTime"] = record.converged
    return details


def _echo(record: TuningRecord, request: TuningRequest) -> dict[str, Any]:
    """The request with the members the service adds; `attach()` reads them without a default."""
    config = dict(record.request["HyperParameterTuningJobConfig"])
    if request.criteria.max_trials is not None:
        limits = {"MaxNumberOfTrainingJobs": request.criteria.max_trials}
        config["ResourceLimits"] = {**limits, **config["ResourceLimits"]}
    config.setdefault("TrainingJobEarlyStoppingType", "Off")
    if "TrainingJobDefinitions" not in record.request:
        config["ParameterRanges"] = _fill_ranges(config.get("ParameterRanges", {}))
    answer = {
        "HyperParameterTuningJobConfig": config,
        **{key: record.request[key] for key in _ECHOED if key in record.request},
    }
    filled = [
        _fill_definition(definition.raw, definition.metric) for definition in request.definitions
    ]
    if "TrainingJobDefinitions" in record.request:
        for definition in filled:
            ranges = definition.get("HyperParameterRanges", {})
            definition["HyperParameterRanges"] = _fill_ranges(ranges)
        answer["TrainingJobDefinitions"] = filled
    else:
        answer["TrainingJobDefinition"] = filled[0]
    return answer


def _fill_ranges(ranges: Mapping[str, Any]) -> dict[str, Any]:
    return {**{key: [] for key in _RANGES}, **ranges}


def _fill_definition(definition: Mapping[str, Any], metric: str) -> dict[str, Any]:
    static = {**definition.get("StaticHyperParameters", {}), OBJECTIVE_KEY: metric}
    algorithm = {"MetricDefinitions": [], **definition["AlgorithmSpecification"]}
    return {
        "EnableNetworkIsolation": False,
        "EnableInterContainerTrafficEncryption": False,
        "EnableManagedSpotTraining": False,
        **definition,
        "StaticHyperParameters": static,
        "AlgorithmSpecification": algorithm,
        "ResourceConfig": read_resources(definition),
    }

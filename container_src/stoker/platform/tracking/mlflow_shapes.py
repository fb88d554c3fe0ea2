"""Experiments, runs and points as MLflow's REST API has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from stoker.platform.model.faults import ApiFault
from stoker.platform.tracking.tracked import Answer, Params, make_experiment
from stoker.storage.mlflow import MOST_NAME, clean_name, make_metric
from stoker.tracking.memberships import DEFAULT_EXPERIMENT, Memberships
from stoker.tracking.records import Experiment, Run, RunStatus, show_parameter
from stoker.tracking.run_filter import Facts
from stoker.tracking.series import MOST_SECONDS, MOST_STEP, Point, Summary

STATUSES: Mapping[str, RunStatus] = {
    "RUNNING": "InProgress",
    "SCHEDULED": "InProgress",
    "FINISHED": "Completed",
    "FAILED": "Failed",
    "KILLED": "Stopped",
}
_SHOWN = {
    "InProgress": "RUNNING",
    "Stopping": "RUNNING",
    "Completed": "FINISHED",
    "Failed": "FAILED",
    "Stopped": "KILLED",
}
_USER_TAG = "mlflow.user"
_CONTEXT_TAG = "mlflow.data.context"


def show_experiment(experiment: Experiment) -> Answer:
    """An experiment."""
    return {
        "experiment_id": experiment.id,
        "name": experiment.name,
        "artifact_location": experiment.artifact_uri,
        "lifecycle_stage": "deleted" if experiment.is_deleted else "active",
        "creation_time": round(experiment.created * 1000),
        "last_update_time": round(experiment.modified * 1000),
        "tags": show_pairs(experiment.tags),
    }


class RunView:
    """Runs as MLflow sees them: each in exactly one experiment, with the last value of metrics."""

    def __init__(
        self,
        members: Memberships,
        experiments: Iterable[Experiment],
        summaries: Mapping[str, list[Summary]],
    ) -> None:
        self._members = members
        self._experiments = {each.name.lower(): each for each in experiments}
        self._summaries = summaries

    def experiment_of(self, run: Run) -> Experiment:
        """The experiment of a run; the default one if it has none."""
        name = self._members.experiment_of(run.name).lower()
        known = self._experiments.get(name) or self._experiments.get(DEFAULT_EXPERIMENT.lower())
        return known or make_experiment(DEFAULT_EXPERIMENT, 0)

    def show(self, run: Run) -> Answer:
        """A run with its data."""
        experiment = self.experiment_of(run)
        title = run.title or run.name
        info = {
            "run_id": run.id,
            "run_uuid": run.id,
            "run_name": title,
            "experiment_id": experiment.id,
            "user_id": run.tags.get(_USER_TAG, ""),
            "status": _SHOWN.get(run.status or "InProgress", "RUNNING"),
            "start_time": round((run.started or run.created) * 1000),
            "artifact_uri": self._artifacts_of(run),
            "lifecycle_stage": "deleted" if run.is_deleted else "active",
        }
        if run.ended is not None:
            info["end_time"] = round(run.ended * 1000)
        data = {
            "metrics": [show_point(s.name, s.last) for s in self._of(run)],
            "params": show_pairs({k: show_parameter(v) for k, v in run.parameters.items()}),
            "tags": show_pairs(self._tags(run, title)),
        }
        inputs = {"dataset_inputs": list(run.datasets)}
        return {
            "info": info,
            "data": data,
            "inputs": inputs,
            "outputs": {"model_outputs": list(run.models)},
        }

    def facts(self, run: Run) -> Facts:
        """What filters and sort criteria name."""
        title = run.title or run.name
        attributes: dict[str, float | str | None] = {
            **dict.fromkeys(("run_name", "Run Name", "Run name", "run name"), title),
            "run_id": run.id,
            "status": _SHOWN.get(run.status or "InProgress", "RUNNING"),
            **dict.fromkeys(
                ("start_time", "Created", "created"), (run.started or run.created) * 1000
            ),
            "end_time": None if run.ended is None else run.ended * 1000,
            "user_id": run.tags.get(_USER_TAG, ""),
            "artifact_uri": self._artifacts_of(run),
        }
        datasets = [each["dataset"] for each in run.datasets]
        return {
            "attributes": attributes,
            "datasets": {
                "name": tuple(str(each.get("name", "")) for each in datasets),
                "digest": tuple(str(each.get("digest", "")) for each in datasets),
                "context": tuple(
                    str(tag.get("value", ""))
                    for each in run.datasets
                    for tag in each.get("tags", ())
                    if tag.get("key") == _CONTEXT_TAG
                ),
            },
            "metrics": {s.name: s.last.value for s in self._of(run)},
            "params": {key: show_parameter(value) for key, value in run.parameters.items()},
            "tags": {**self._tags(run, title)},
        }

    def _artifacts_of(self, run: Run) -> str:
        return f"{self.experiment_of(run).artifact_uri}/{run.id}/artifacts"

    def _of(self, run: Run) -> list[Summary]:
        return self._summaries.get(run.name.lower(), [])

    def _tags(self, run: Run, title: str) -> dict[str, str]:
        source = {"mlflow.source.name": run.source, "mlflow.source.type": "JOB"}
        return {**(source if run.source else {}), **run.tags, "mlflow.runName": title}


def show_point(key: str, point: Point) -> Answer:
    """A value of a metric."""
    return make_metric(key, point.value, time_ms=point.time_ms, step=point.step)


def read_point(params: Params) -> Point:
    """The value of a metric in a request.

    Raises:
        ApiFault: it is not a number, or its step is too large.
    """
    try:
        value, step = float(params["value"]), int(params.get("step") or 0)
        time_ms = int(params.get("timestamp") or 0)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        text = f"Got invalid metric {dict(params)!r}: {error!r}"
        raise ApiFault("INVALID_PARAMETER_VALUE", text[:1000]) from error
    if max(abs(step), abs(time_ms)) > MOST_STEP:
        raise ApiFault(
            "INVALID_PARAMETER_VALUE", f"step {step} or timestamp {time_ms} is too large"
        )
    return Point(step, time_ms, value)


def read_time(milliseconds: str | int) -> float:
    """The seconds of a time in a request, at most the last that other clients can show."""
    return min(max(0, int(milliseconds)) / 1000, MOST_SECONDS)


def read_pairs(pairs: Iterable[Params]) -> dict[str, str]:
    """Keys and values of parameters or tags.

    Raises:
        ApiFault: one has no key, or a key that MLflow does not take.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        value = pair.get("value")
        found[read_name(pair)] = "" if value is None else str(value)
    return found


def read_name(params: Params) -> str:
    """The key of a parameter, metric or tag. Raises ApiFault: MLflow does not take it."""
    name = str(params.get("key") or "")
    if not name:
        raise ApiFault("INVALID_PARAMETER_VALUE", "Missing value for required parameter 'key'")
    if name != clean_name(name):
        raise ApiFault(
            "INVALID_PARAMETER_VALUE",
            f"Invalid value {name[:300]!r} for parameter 'key' supplied: a name may have "
            f"{MOST_NAME} alphanumerics, underscores (_), dashes (-), periods (.), spaces ( ), "
            "colons (:) and slashes (/), and must be the same when it is normalized as a path; "
            f"fix: {clean_name(name)!r}",
        )
    return name


def show_pairs(pairs: Mapping[str, Any]) -> list[dict[str, str]]:
    """As the API's list of pairs."""
    return [{"key": key, "value": value} for key, value in pairs.items()]

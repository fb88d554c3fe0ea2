"""MLflow's logged models and inputs: what `log_model` and autolog send in addition to files."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from stoker.platform.tracking.mlflow_search import Searchable, invalid, missing, require
from stoker.platform.tracking.mlflow_shapes import (
    read_pairs,
    read_point,
    show_pairs,
    show_point,
)
from stoker.platform.tracking.tracked import Answer, Operation, Params, read_experiment
from stoker.tracking.records import LoggedModel, Run
from stoker.tracking.run_filter import Facts
from stoker.tracking.store import RecordMissing, RunStore

T = TypeVar("T")
_STATUSES = ("PENDING", "READY", "UPLOAD_FAILED")
_HISTORY = "mlflow.log-model.history"
_DATASET_OF_METRIC = ("dataset_name", "dataset_digest")
_TIMES = ("creation_timestamp", "creation_time", "last_updated_timestamp")
_MODELS = Searchable(
    numbers=_TIMES,
    texts=("name", "model_id", "model_type", "status", "source_run_id"),
    listable=("name", "model_id", "model_type", "status", "source_run_id"),
    most=100,
)


class LoggedModelOperations:
    """Each operation that changes anything is called in a transaction."""

    def __init__(self, store: RunStore) -> None:
        self._store = store

    def operations(self) -> dict[str, Operation]:
        """The rows of the service's table."""
        return {
            "POST logged-models": self._create,
            "GET logged-models/{model_id}": lambda p: self._answer(self._find(p)),
            "PATCH logged-models/{model_id}": self._finish,
            "DELETE logged-models/{model_id}": self._delete,
            "POST logged-models/{model_id}/params": self._add_params,
            "PATCH logged-models/{model_id}/tags": self._add_tags,
            "DELETE logged-models/{model_id}/tags/{key}": self._delete_tag,
            "POST logged-models/search": self._search,
            "POST runs/outputs": self._add_outputs,
            "POST runs/log-inputs": self._add_inputs,
            "POST runs/log-model": self._note_model,
        }

    def _create(self, params: Params) -> Answer:
        id_, now = f"m-{uuid.uuid4().hex}", time.time()
        experiment = str(params.get("experiment_id", "0"))
        try:
            place = read_experiment(self._store, experiment).artifact_uri
        except RecordMissing:
            raise missing(f"No Experiment with id={experiment} exists") from None
        model = LoggedModel(
            name=id_,
            title=str(params.get("name") or id_),
            experiment=experiment,
            run=str(params.get("source_run_id", "")),
            status="PENDING",
            type=str(params.get("model_type", "")),
            artifact_uri=f"{place}/models/{id_}/artifacts",
            parameters=read_pairs(params.get("params", ())),
            tags=read_pairs(params.get("tags", ())),
            created=now,
            modified=now,
        )
        self._store.add(model)
        return self._answer(model)

    def _find(self, params: Params) -> LoggedModel:
        id_ = require(params, "model_id")
        try:
            return self._store.read(LoggedModel, id_)
        except RecordMissing:
            raise missing(f"Logged model with ID '{id_}' not found") from None

    def _change(self, params: Params, **fields: Any) -> Answer:  # noqa: ANN401 - of a LoggedModel
        name = self._find(params).name
        changed = self._store.change(
            LoggedModel, name, lambda model: replace(model, modified=time.time(), **fields)
        )
        return self._answer(changed)

    def _finish(self, params: Params) -> Answer:
        status = str(params.get("status", "READY")).removeprefix("LOGGED_MODEL_")
        return self._change(params, status=status if status in _STATUSES else "READY")

    def _delete(self, params: Params) -> Answer:
        self._store.remove(LoggedModel, self._find(params).name)
        return {}

    def _add_params(self, params: Params) -> Answer:
        known = self._find(params).parameters
        self._change(params, parameters={**known, **read_pairs(params.get("params", ()))})
        return {}

    def _add_tags(self, params: Params) -> Answer:
        known = self._find(params).tags
        return self._change(params, tags={**known, **read_pairs(params.get("tags", ()))})

    def _delete_tag(self, params: Params) -> Answer:
        known = self._find(params).tags
        return self._change(params, tags={k: v for k, v in known.items() if k != params["key"]})

    def note_metrics(self, run: str, metrics: Iterable[Params]) -> None:
        """Keep the latest value of each metric that a run has logged for a model."""
        for metric in metrics:
            if not metric.get("model_id"):
                continue
            new = {
                **show_point(str(metric["key"]), read_point(metric)),
                **{key: str(metric[key]) for key in _DATASET_OF_METRIC if metric.get(key)},
                "model_id": str(metric["model_id"]),
                "run_id": run,
            }
            known = self._find(metric).metrics
            others = [each for each in known if _identify(each) != _identify(new)]
            self._change(metric, metrics=[*others, new])

    def _search(self, params: Params) -> Answer:
        """Of experiments, newest first."""
        wanted = {str(id_) for id_ in params.get("experiment_ids", ())}
        found = [
            (_make_facts(model), model)
            for model in reversed(self._store.read_all(LoggedModel))
            if model.experiment in wanted
        ]
        page, more = _MODELS.search(found, params)
        return {"models": [self._answer(model)["model"] for model in page], **more}

    # ---- what a run has read and made

    def _change_run(self, params: Params, change: Callable[[Run], Run]) -> Answer:
        id_ = str(params.get("run_id", ""))
        try:
            name = self._store.read_id(Run, id_).name
        except RecordMissing:
            raise missing(f"Run with id={id_} not found") from None
        self._store.change(Run, name, change)
        return {}

    def _add_outputs(self, params: Params) -> Answer:
        new = [
            {"model_id": require(each, "model_id"), "step": _read_step(each)}
            for each in params.get("models", ())
        ]
        return self._change_run(params, lambda run: replace(run, models=[*run.models, *new]))

    def _add_inputs(self, params: Params) -> Answer:
        """Of several with the same name and digest the last one stays."""
        new = [_read_dataset(each) for each in params.get("datasets", ())]

        def add(run: Run) -> Run:
            by_name = {
                (each["dataset"]["name"], each["dataset"]["digest"]): each
                for each in (*run.datasets, *new)
            }
            return replace(run, datasets=list(by_name.values()))

        return self._change_run(params, add)

    def _note_model(self, params: Params) -> Answer:
        """As MLflow 2's server does: one tag has all models of a run."""
        model = _read_json(params.get("model_json"), dict)
        if model is None:
            raise invalid("model_json is not a JSON object")

        def note(run: Run) -> Run:
            # Any client may have set the tag to any text.
            models = [*(_read_json(run.tags.get(_HISTORY), list) or ()), model]
            return replace(run, tags={**run.tags, _HISTORY: json.dumps(models)})

        return self._change_run(params, note)

    def _answer(self, model: LoggedModel) -> Answer:
        info = {
            "model_id": model.name,
            "experiment_id": model.experiment,
            "name": model.title,
            "creation_timestamp_ms": round(model.created * 1000),
            "last_updated_timestamp_ms": round(model.modified * 1000),
            "artifact_uri": model.artifact_uri,
            "status": f"LOGGED_MODEL_{model.status}",
            "model_type": model.type,
            "source_run_id": model.run,
            "tags": show_pairs(model.tags),
        }
        data = {"params": show_pairs(model.parameters), "metrics": list(model.metrics)}
        return {"model": {"info": info, "data": data}}


def _identify(metric: Params) -> tuple[object, ...]:
    return tuple(metric.get(key) for key in ("key", *_DATASET_OF_METRIC))


def _read_step(params: Params) -> int:
    """Raises ApiFault: it is not a number."""
    return read_point({**params, "value": 0}).step


def _read_dataset(given: Params) -> Answer:
    """A data set and its tags, all of them texts. Raises ApiFault: it is not one."""
    dataset, tags = given.get("dataset"), given.get("tags") or []
    if not isinstance(dataset, dict):
        raise invalid("Missing value for required parameter 'dataset'")
    if not isinstance(tags, list) or not all(isinstance(tag, dict) for tag in tags):
        raise invalid("The tags of a data set must be a list of objects")
    for name in ("name", "digest"):
        require(dataset, name)
    texts = {key: str(value) for key, value in dataset.items() if value is not None}
    return {"dataset": texts, "tags": show_pairs(read_pairs(tags))}


def _read_json(text: object, kind: type[T]) -> T | None:
    """None for anything else than JSON of this kind."""
    try:
        found = json.loads(str(text))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, kind) else None


def _make_facts(model: LoggedModel) -> Facts:
    """What filters and orders name."""
    return {
        "attributes": {
            "name": model.title,
            "model_id": model.name,
            "model_type": model.type,
            "status": model.status,
            "source_run_id": model.run,
            **dict.fromkeys(("creation_timestamp", "creation_time"), model.created * 1000),
            "last_updated_timestamp": model.modified * 1000,
        },
        "metrics": {str(each["key"]): float(each["value"]) for each in model.metrics},
        "params": model.parameters,
        "tags": model.tags,
    }

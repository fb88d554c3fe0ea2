"""MLflow's logged models and inputs: what `log_model` and autolog send in addition to files."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import replace
from typing import Any

from stoker.platform.model.faults import ApiFault
from stoker.platform.tracking.mlflow_shapes import read_pairs, show_pairs
from stoker.platform.tracking.tracked import Answer, Operation, Params, refusing
from stoker.tracking.records import Experiment, LoggedModel, Run
from stoker.tracking.store import RecordMissing, RunStore

_STATUSES = ("PENDING", "READY", "UPLOAD_FAILED")
_HISTORY = "mlflow.log-model.history"
_MOST_MODELS = 100


class LoggedModelOperations:
    """Safe to call from several threads."""

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
            "POST logged-models/search": self._search,
            "POST runs/outputs": self._accept,
            "POST runs/log-inputs": self._accept,
            "POST runs/log-model": self._note_model,
        }

    def _create(self, params: Params) -> Answer:
        id_, now = f"m-{uuid.uuid4().hex}", time.time()
        experiment = str(params.get("experiment_id", "0"))
        try:
            place = self._store.read_id(Experiment, experiment).artifact_uri
        except RecordMissing:
            text = f"No Experiment with id={experiment} exists"
            raise ApiFault("RESOURCE_DOES_NOT_EXIST", text, status=404) from None
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
        try:
            return self._store.read(LoggedModel, params["model_id"])
        except RecordMissing:
            text = f"Logged model with ID '{params['model_id']}' not found"
            raise ApiFault("RESOURCE_DOES_NOT_EXIST", text, status=404) from None

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

    def _search(self, params: Params) -> Answer:
        """Of experiments, newest first; the filter may name the source run only."""
        wanted = {str(id_) for id_ in params.get("experiment_ids", ())}
        text = str(params.get("filter", ""))
        found = [
            model
            for model in reversed(self._store.read_all(LoggedModel))
            if model.experiment in wanted and ("source_run_id" not in text or model.run in text)
        ]
        size = int(params.get("max_results", _MOST_MODELS))
        return {"models": [self._answer(model)["model"] for model in found[:size]]}

    def _accept(self, params: Params) -> Answer:
        """Data sets and models of a run: the run must exist."""
        with refusing("Run", str(params.get("run_id"))):
            self._store.read_id(Run, str(params.get("run_id", "")))
        return {}

    def _note_model(self, params: Params) -> Answer:
        """As MLflow 2's server does: one tag has all models of a run."""
        with refusing("Run", str(params.get("run_id"))), self._store.transaction():
            run = self._store.read_id(Run, str(params.get("run_id", "")))
            known = json.loads(run.tags.get(_HISTORY, "[]"))
            models = [*known, json.loads(params.get("model_json") or "{}")]
            tags = {**run.tags, _HISTORY: json.dumps(models)}
            self._store.change(Run, run.name, lambda old: replace(old, tags=tags))
        return {}

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
        return {"model": {"info": info, "data": {"params": show_pairs(model.parameters)}}}

"""MLflow's model registry: named models, their versions and aliases."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from stoker.platform.tracking.mlflow_search import Searchable, exists, invalid, missing, require
from stoker.platform.tracking.mlflow_shapes import read_pairs, show_pairs
from stoker.platform.tracking.tracked import Answer, Operation, Params
from stoker.tracking.records import LoggedModel, ModelVersion, RegisteredModel
from stoker.tracking.run_filter import Facts
from stoker.tracking.store import RecordExists, RecordMissing, RunStore

_STAGES = ("None", "Staging", "Production", "Archived")
_LONGEST_ALIAS = 255
_ALIAS = re.compile(rf"[\w-]{{1,{_LONGEST_ALIAS}}}")
_RESERVED_ALIAS = re.compile("latest|v[0-9]+", re.IGNORECASE)
_TIMES = ("creation_timestamp", "last_updated_timestamp", "timestamp")
_MODELS = Searchable(numbers=_TIMES, texts=("name",), listable=("name",), most=100)
_VERSIONS = Searchable(
    numbers=(*_TIMES, "version_number"),
    texts=("name", "run_id", "source_path"),
    listable=("name", "run_id"),
    most=10_000,
)


class ModelRegistryOperations:
    """Each operation that changes anything is called in a transaction."""

    def __init__(self, store: RunStore) -> None:
        self._store = store

    def operations(self) -> dict[str, Operation]:
        """The rows of the service's table."""
        return {
            "POST registered-models/create": self._create,
            "GET registered-models/get": lambda p: self._answer(self._model(p)),
            "PATCH registered-models/update": self._update,
            "POST registered-models/rename": self._rename,
            "DELETE registered-models/delete": self._delete,
            "GET registered-models/search": self._search,
            "GET registered-models/get-latest-versions": self._list_latest,
            "POST registered-models/get-latest-versions": self._list_latest,
            "POST registered-models/set-tag": lambda p: self._tag(p, self._model(p)),
            "DELETE registered-models/delete-tag": lambda p: self._untag(p, self._model(p)),
            "POST registered-models/alias": self._set_alias,
            "DELETE registered-models/alias": self._delete_alias,
            "GET registered-models/alias": self._get_alias,
            "POST model-versions/create": self._create_version,
            "GET model-versions/get": lambda p: self._answer(self._version(p)),
            "PATCH model-versions/update": self._update_version,
            "POST model-versions/transition-stage": self._change_stage,
            "DELETE model-versions/delete": self._delete_version,
            "GET model-versions/get-download-uri": lambda p: {
                "artifact_uri": self._version(p).artifact_uri
            },
            "GET model-versions/search": self._search_versions,
            "POST model-versions/set-tag": lambda p: self._tag(p, self._version(p)),
            "DELETE model-versions/delete-tag": lambda p: self._untag(p, self._version(p)),
        }

    # ---- models

    def _create(self, params: Params) -> Answer:
        name, now = require(params, "name"), time.time()
        if "/" in name or ":" in name:
            raise invalid(f"Registered model name '{name}' must not contain '/' or ':'")
        model = RegisteredModel(
            name=name,
            description=params.get("description", ""),
            tags=read_pairs(params.get("tags", ())),
            created=now,
            modified=now,
        )
        try:
            self._store.add(model)
        except RecordExists:
            raise exists(f"Registered Model (name={name}) already exists.") from None
        return self._answer(model)

    def _model(self, params: Params) -> RegisteredModel:
        name = require(params, "name")
        try:
            return self._store.read(RegisteredModel, name)
        except RecordMissing:
            raise missing(f"Registered Model with name={name} not found") from None

    def _update(self, params: Params) -> Answer:
        return self._change(self._model(params), description=params.get("description", ""))

    def _rename(self, params: Params) -> Answer:
        new = require(params, "new_name")
        old = self._model(params)
        # Read before the rename: they are found by the model's name.
        versions = self._versions_of(old)
        try:
            answer = self._change(old, name=new)
        except RecordExists:
            raise exists(f"Registered Model (name={new}) already exists.") from None
        for version in versions:
            self._change(version, name=f"{new}/{version.version}", model=new)
        return answer

    def _delete(self, params: Params) -> Answer:
        model = self._model(params)
        for version in self._versions_of(model):
            self._store.remove(ModelVersion, version.name)
        self._store.remove(RegisteredModel, model.name)
        return {}

    def _search(self, params: Params) -> Answer:
        models = sorted(self._store.read_all(RegisteredModel), key=lambda model: model.name)
        page, more = _MODELS.search(_make_rows(models), params)
        return {"registered_models": [self._show_model(model) for model in page], **more}

    def _versions_of(self, model: RegisteredModel) -> list[ModelVersion]:
        """The newest first."""
        versions = self._store.read_all(ModelVersion)
        return [each for each in reversed(versions) if each.model == model.name]

    def _latest(self, model: RegisteredModel) -> list[ModelVersion]:
        """The newest version of each stage."""
        newest: dict[str, ModelVersion] = {}
        for version in self._versions_of(model):
            newest.setdefault(version.stage, version)
        return list(newest.values())

    def _list_latest(self, params: Params) -> Answer:
        stages = params.get("stages") or _STAGES
        latest = [each for each in self._latest(self._model(params)) if each.stage in stages]
        return {"model_versions": [self._show_version(version) for version in latest]}

    # ---- aliases

    def _set_alias(self, params: Params) -> Answer:
        model, version = self._model(params), self._version(params)
        alias = require(params, "alias")
        # `models:/net@v1` and `@latest` name a version themselves.
        if not _ALIAS.fullmatch(alias) or _RESERVED_ALIAS.fullmatch(alias):
            raise invalid(
                f"Invalid alias name: '{alias}'. It may have {_LONGEST_ALIAS} alphanumerics, "
                "underscores (_) and dashes (-), and not be 'latest' or a version such as 'v1'."
            )
        self._change(model, aliases={**model.aliases, alias: version.version})
        return {}

    def _delete_alias(self, params: Params) -> Answer:
        model, gone = self._model(params), require(params, "alias")
        self._change(model, aliases={a: v for a, v in model.aliases.items() if a != gone})
        return {}

    def _get_alias(self, params: Params) -> Answer:
        model, alias = self._model(params), require(params, "alias")
        if alias not in model.aliases:
            raise invalid(f"Registered model alias {alias} not found.")
        return self._answer(self._version({**params, "version": model.aliases[alias]}))

    # ---- versions

    def _create_version(self, params: Params) -> Answer:
        source, now = require(params, "source"), time.time()
        model = self._model(params)
        # Not how many there are: the number of a version that was deleted is not given again.
        number = model.newest + 1
        version = ModelVersion(
            name=f"{model.name}/{number}",
            model=model.name,
            version=str(number),
            source=source,
            artifact_uri=self._find_files(source),
            run=str(params.get("run_id", "")),
            description=params.get("description", ""),
            tags=read_pairs(params.get("tags", ())),
            created=now,
            modified=now,
        )
        self._store.add(version)
        self._change(model, newest=number)
        return self._answer(version)

    def _find_files(self, source: str) -> str:
        """Of `models:/m-0123`, the folder of the logged model."""
        if not source.startswith("models:/"):
            return source
        try:
            return self._store.read(LoggedModel, source.removeprefix("models:/")).artifact_uri
        except RecordMissing:
            raise missing(f"The logged model of {source} was not found") from None

    def _version(self, params: Params) -> ModelVersion:
        name, number = self._model(params).name, require(params, "version")
        try:
            return self._store.read(ModelVersion, f"{name}/{number}")
        except RecordMissing:
            raise missing(f"Model Version (name={name}, version={number}) not found") from None

    def _update_version(self, params: Params) -> Answer:
        return self._change(self._version(params), description=params.get("description", ""))

    def _change_stage(self, params: Params) -> Answer:
        stage = str(params.get("stage", "")).title()
        if stage not in _STAGES:
            raise invalid(f"Invalid Model Version stage: {stage}; it has: {', '.join(_STAGES)}")
        version = self._version(params)
        if params.get("archive_existing_versions") in (True, "true"):
            for other in self._versions_of(self._model(params)):
                if other.stage == stage:
                    self._change(other, stage="Archived")
        return self._change(version, stage=stage)

    def _delete_version(self, params: Params) -> Answer:
        model, version = self._model(params), self._version(params)
        self._store.remove(ModelVersion, version.name)
        kept = {a: number for a, number in model.aliases.items() if number != version.version}
        self._change(model, aliases=kept)
        return {}

    def _search_versions(self, params: Params) -> Answer:
        versions = self._store.read_all(ModelVersion)
        page, more = _VERSIONS.search(_make_rows(reversed(versions)), params)
        return {"model_versions": [self._show_version(version) for version in page], **more}

    # ---- both

    def _change(self, record: RegisteredModel | ModelVersion, **fields: Any) -> Answer:  # noqa: ANN401 - of the record
        new = replace(record, modified=time.time(), **fields)
        kind: Any = type(record)
        return self._answer(self._store.change(kind, record.name, lambda _: new))

    def _tag(self, params: Params, record: RegisteredModel | ModelVersion) -> Answer:
        self._change(record, tags={**record.tags, **read_pairs([params])})
        return {}

    def _untag(self, params: Params, record: RegisteredModel | ModelVersion) -> Answer:
        gone = require(params, "key")
        self._change(record, tags={k: v for k, v in record.tags.items() if k != gone})
        return {}

    def _answer(self, record: RegisteredModel | ModelVersion) -> Answer:
        if isinstance(record, ModelVersion):
            return {"model_version": self._show_version(record)}
        return {"registered_model": self._show_model(record)}

    def _show_model(self, model: RegisteredModel) -> Answer:
        return {
            **_show_common(model),
            "name": model.name,
            "latest_versions": [self._show_version(each) for each in self._latest(model)],
            "aliases": [{"alias": a, "version": v} for a, v in model.aliases.items()],
        }

    def _show_version(self, version: ModelVersion) -> Answer:
        aliases = self._store.read(RegisteredModel, version.model).aliases
        return {
            **_show_common(version),
            "name": version.model,
            "version": version.version,
            "source": version.source,
            "run_id": version.run,
            "current_stage": version.stage,
            "status": "READY",
            "aliases": [alias for alias, number in aliases.items() if number == version.version],
        }


def _show_common(record: RegisteredModel | ModelVersion) -> Answer:
    return {
        "creation_timestamp": round(record.created * 1000),
        "last_updated_timestamp": round(record.modified * 1000),
        "description": record.description,
        "tags": show_pairs(record.tags),
    }


def _make_rows(records: Iterable[Any]) -> Iterable[tuple[Facts, Any]]:
    """With what filters and orders name."""
    for record in records:
        attributes = {
            "name": record.name,
            "creation_timestamp": record.created * 1000,
            **dict.fromkeys(("last_updated_timestamp", "timestamp"), record.modified * 1000),
        }
        if isinstance(record, ModelVersion):
            attributes |= {
                "name": record.model,
                "run_id": record.run,
                "source_path": record.source,
                "version_number": float(record.version),
            }
        # Clients leave prompts out, which are registered models with a tag.
        tags = {"mlflow.prompt.is_prompt": "false", **record.tags}
        yield {"attributes": attributes, "tags": tags}, record

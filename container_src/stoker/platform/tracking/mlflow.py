"""MLflow's REST operations over the same runs: experiments, runs, metrics, parameters, tags."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from stoker.bus.run_file import MOVE_TAG
from stoker.platform.model.faults import ApiFault
from stoker.platform.tracking.job_facts import make_trial_name
from stoker.platform.tracking.logged_models import LoggedModelOperations
from stoker.platform.tracking.mlflow_search import (
    Searchable,
    exists,
    invalid,
    is_wanted,
    make_rows,
    missing,
    require,
)
from stoker.platform.tracking.mlflow_shapes import (
    STATUSES,
    RunView,
    read_name,
    read_pairs,
    read_point,
    read_time,
    show_experiment,
    show_point,
)
from stoker.platform.tracking.model_registry import ModelRegistryOperations
from stoker.platform.tracking.tracked import (
    Answer,
    Operation,
    Params,
    add_experiment,
    find_or_add,
    join_trial,
    read_experiment,
)
from stoker.tracking.memberships import DEFAULT_EXPERIMENT, Memberships
from stoker.tracking.records import Experiment, Run, Trial
from stoker.tracking.run_filter import Facts
from stoker.tracking.store import RecordExists, RecordMissing, RunStore

_MOST_POINTS = 25_000  # MLflow's limit of one page
_LONGEST_EXPERIMENT = 500
_READS = re.compile("^GET |/search$|/get-latest-versions$")
_NAME_TAG = "mlflow.runName"
_RUNS = Searchable(
    numbers=("start_time", "end_time", "created", "Created"),
    texts=(
        *("run_name", "run name", "Run name", "Run Name"),
        *("run_id", "user_id", "status", "artifact_uri"),
    ),
)
_EXPERIMENTS = Searchable(
    numbers=("creation_time", "last_update_time"), texts=("name", "experiment_id")
)


class MlflowOperations:
    """Safe to call from several threads."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._models = LoggedModelOperations(store)
        self._known: tuple[object, RunView, list[tuple[Facts, Run]]] | None = None

    def operations(self) -> dict[str, Operation]:
        """Method and path behind /api/2.0/mlflow/ → what answers it."""
        rows = {
            **self._own_operations(),
            **self._models.operations(),
            **ModelRegistryOperations(self._store).operations(),
        }
        return {
            name: row if _READS.search(name) else self._whole(row) for name, row in rows.items()
        }

    def _whole(self, operation: Operation) -> Operation:
        """Done wholly or not at all, and not between another writer's reading and writing."""

        def answer(params: Params) -> Mapping[str, Any]:
            with self._store.transaction():
                return operation(dict(params))

        return answer

    def _own_operations(self) -> dict[str, Operation]:
        return {
            "POST experiments/create": self._create_experiment,
            "GET experiments/get": lambda p: self._show_experiment(self._experiment(p)),
            "GET experiments/get-by-name": self._get_by_name,
            "POST experiments/search": self._search_experiments,
            "POST experiments/update": self._rename_experiment,
            "POST experiments/delete": lambda p: self._hide_experiment(p, hidden=True),
            "POST experiments/restore": lambda p: self._hide_experiment(p, hidden=False),
            "POST experiments/set-experiment-tag": self._tag_experiment,
            "POST experiments/delete-experiment-tag": self._untag_experiment,
            "POST runs/create": self._create_run,
            "GET runs/get": lambda p: {"run": self._show_run(self._run(p))},
            "POST runs/update": self._update_run,
            "POST runs/delete": lambda p: self._change(p, is_deleted=True),
            "POST runs/restore": lambda p: self._change(p, is_deleted=False),
            "POST runs/log-metric": lambda p: self._log(p, metrics=[p]),
            "POST runs/log-parameter": lambda p: self._log(p, params_=[p]),
            "POST runs/log-batch": lambda p: self._log(
                p,
                metrics=p.get("metrics", ()),
                params_=p.get("params", ()),
                tags=p.get("tags", ()),
            ),
            "POST runs/set-tag": lambda p: self._log(p, tags=[p]),
            "POST runs/delete-tag": self._delete_tag,
            "POST runs/search": self._search_runs,
            "GET metrics/get-history": self._get_history,
        }

    # ---- experiments

    def _default(self) -> Experiment:
        return read_experiment(self._store, "0")

    def _experiment(self, params: Params) -> Experiment:
        id_ = str(params.get("experiment_id", "0"))
        try:
            return read_experiment(self._store, id_)
        except RecordMissing:
            raise missing(f"No Experiment with id={id_} exists") from None

    def _show_experiment(self, experiment: Experiment) -> Answer:
        return {"experiment": show_experiment(experiment)}

    def _get_by_name(self, params: Params) -> Answer:
        name = require(params, "experiment_name")
        if name == DEFAULT_EXPERIMENT:
            return self._show_experiment(self._default())
        return self._show_experiment(self._experiment_named(name))

    def _create_experiment(self, params: Params) -> Answer:
        self._default()
        fields = {"tags": read_pairs(params.get("tags", ()))}
        if params.get("artifact_location"):
            fields["artifact_uri"] = params["artifact_location"]
        try:
            made = add_experiment(self._store, _read_experiment_name(params, "name"), **fields)
        except RecordExists:
            raise _experiment_exists(params["name"]) from None
        return {"experiment_id": made.id}

    def _search_experiments(self, params: Params) -> Answer:
        self._default()
        which = params.get("view_type", "ACTIVE_ONLY")
        rows: list[tuple[Facts, Experiment]] = [
            (_describe_experiment(each), each)
            for each in reversed(self._store.read_all(Experiment))
            if is_wanted(which, is_deleted=each.is_deleted)
        ]
        page, more = _EXPERIMENTS.search(rows, params)
        return {"experiments": [show_experiment(each) for each in page], **more}

    def _rename_experiment(self, params: Params) -> Answer:
        old, new = self._experiment(params), _read_experiment_name(params, "new_name")
        if old.id == "0":
            raise invalid(f"The experiment {old.name} has the runs of no other: it keeps its name")
        try:
            self._store.change(Experiment, old.name, lambda each: replace(each, name=new))
        except RecordExists:
            raise _experiment_exists(new) from None
        for trial in self._store.read_all(Trial):
            if trial.experiment == old.name:
                self._store.change(Trial, trial.name, lambda t: replace(t, experiment=new))
        return {}

    def _hide_experiment(self, params: Params, *, hidden: bool) -> Answer:
        experiment = self._experiment(params)
        if experiment.is_deleted == hidden:
            raise missing(
                f"No Experiment with id={experiment.id} is {'active' if hidden else 'deleted'}"
            )
        self._store.change(
            Experiment, experiment.name, lambda each: replace(each, is_deleted=hidden)
        )
        return {}

    def _tag_experiment(self, params: Params) -> Answer:
        name, new = self._experiment(params).name, read_pairs([params])
        self._store.change(Experiment, name, lambda each: replace(each, tags={**each.tags, **new}))
        return {}

    def _untag_experiment(self, params: Params) -> Answer:
        name, key = self._experiment(params).name, require(params, "key")
        self._store.change(
            Experiment,
            name,
            lambda each: replace(each, tags={k: v for k, v in each.tags.items() if k != key}),
        )
        return {}

    # ---- runs

    def _run(self, params: Params) -> Run:
        id_ = str(params.get("run_id") or params.get("run_uuid"))
        try:
            return self._store.read_id(Run, id_)
        except RecordMissing:
            raise missing(f"Run with id={id_} not found") from None

    def _active_run(self, params: Params) -> Run:
        run = self._run(params)
        if run.is_deleted:
            raise invalid(f"The run {run.id} must be in the 'active' state: it is deleted")
        return run

    def _view(self, run: Run | None = None) -> RunView:
        """Of one run, or of all: the metrics of many take a while."""
        summaries = self._store.summaries(None if run is None else [run.name])
        return RunView(Memberships(self._store), self._store.read_all(Experiment), summaries)

    def _show_run(self, run: Run) -> Answer:
        return self._view(run).show(run)

    def _create_run(self, params: Params) -> Answer:
        experiment = self._experiment(params)
        if experiment.is_deleted:
            raise invalid(
                f"The experiment {experiment.id} must be in the 'active' state: it is deleted"
            )
        tags = read_pairs(params.get("tags", ()))
        id_, now = uuid.uuid4().hex, time.time()
        title = params.get("run_name") or tags.get(_NAME_TAG) or f"run-{id_[:8]}"
        # MLflow's names of runs need not be unique, those of trial components must be.
        slug = re.sub(r"[^a-z0-9]+", "-", f"{experiment.name}-{title}".lower()).strip("-")[:100]
        run = Run(
            name=f"{slug}-{id_[:8]}",
            id=id_,
            title=title,
            status="InProgress",
            created=now,
            modified=now,
            started=read_time(params["start_time"]) if params.get("start_time") else now,
            tags={**tags, _NAME_TAG: title},
        )
        self._store.add(run)
        if experiment.id != "0":
            self._join(experiment, run.name)
        return {"run": self._show_run(run)}

    def _update_run(self, params: Params) -> Answer:
        self._active_run(params)
        fields: dict[str, Any] = {}
        if params.get("status") in STATUSES:
            fields["status"] = STATUSES[params["status"]]
        if params.get("end_time"):
            fields["ended"] = read_time(params["end_time"])
        if params.get("run_name"):
            fields["title"] = params["run_name"]
        self._change(params, **fields)
        return {"run_info": self._show_run(self._run(params))["info"]}

    def _change(self, params: Params, **fields: Any) -> Answer:  # noqa: ANN401 - the fields of a Run
        name = self._run(params).name
        self._store.change(Run, name, lambda run: replace(run, modified=time.time(), **fields))
        return {}

    def _log(
        self,
        params: Params,
        *,
        metrics: Iterable[Params] = (),
        params_: Iterable[Params] = (),
        tags: Iterable[Params] = (),
    ) -> Answer:
        metrics, params_ = list(metrics), list(params_)
        points = [(read_name(each), read_point(each)) for each in metrics]
        new, labels = read_pairs(params_), read_pairs(tags)
        if len(new) < len(params_):
            raise invalid("Duplicate parameter keys have been submitted: send one value of each")
        moved_to = labels.pop(MOVE_TAG, "")
        run = self._active_run(params)
        if moved_to:
            self._move(run, moved_to)
        for key, value in new.items():
            if key in run.parameters and str(run.parameters[key]) != value:
                raise invalid(
                    f"Changing param values is not allowed. Param with key='{key}' was "
                    f"already logged with value='{run.parameters[key]}' for run "
                    f"ID='{run.id}'. Attempted logging new value '{value}'."
                )
        self._store.log(run.name, points)
        self._models.note_metrics(run.id, metrics)
        if new or labels:
            self._change(
                params,
                parameters={**run.parameters, **new},
                tags={**run.tags, **labels},
                title=labels.get(_NAME_TAG) or run.title,
            )
        return {}

    def _move(self, run: Run, experiment: str) -> None:
        """Into the experiment that a script has named, unless it is in one."""
        if not self._store.links(target=run.node):
            self._join(self._experiment_named(experiment), run.name)

    def _experiment_named(self, name: str) -> Experiment:
        try:
            return self._store.read(Experiment, name)
        except RecordMissing:
            raise missing(f"Could not find experiment with name '{name}'") from None

    def _join(self, experiment: Experiment, run: str) -> None:
        """Make a run a member of an experiment: of the trial that SDK v2 uses, too."""
        now = time.time()
        group = make_trial_name(experiment.name)
        trial = Trial(name=group, experiment=experiment.name, created=now, modified=now)
        made = find_or_add(self._store, Trial, group, lambda: trial)
        join_trial(self._store, made.name, run)

    def _delete_tag(self, params: Params) -> Answer:
        run = self._active_run(params)
        gone = require(params, "key")
        if gone not in run.tags:
            raise missing(f"No tag with name: {gone} in run with id {run.id}")
        return self._change(params, tags={k: v for k, v in run.tags.items() if k != gone})

    def _search_runs(self, params: Params) -> Answer:
        wanted = {str(id_) for id_ in params.get("experiment_ids", ())}
        which = params.get("run_view_type", "ACTIVE_ONLY")
        view, runs = self._read_runs()
        found = (
            (facts, run)
            for facts, run in runs
            if is_wanted(which, is_deleted=run.is_deleted) and view.experiment_of(run).id in wanted
        )
        page, more = _RUNS.search(found, params)
        return {"runs": [view.show(run) for run in page], **more}

    def _read_runs(self) -> tuple[RunView, list[tuple[Facts, Run]]]:
        """All runs, the newest first; read again only if anything has changed."""
        # A search is read in pages: the metrics of all runs are read once for all of them.
        known, version = self._known, self._store.version()
        if known is None or known[0] != version:
            view = self._view()
            all_runs = self._store.read_all(Run)
            all_runs.sort(key=lambda run: (-(run.started or run.created), run.id))
            runs: list[tuple[Facts, Run]] = [(view.facts(run), run) for run in all_runs]
            self._known = known = (version, view, runs)
        return known[1], known[2]

    def _get_history(self, params: Params) -> Answer:
        run, key = self._run(params), require(params, "metric_key")
        page, more = make_rows(self._store.read_points(run.name, key), params, _MOST_POINTS)
        return {"metrics": [show_point(key, point) for point in page], **more}


def _describe_experiment(experiment: Experiment) -> Facts:
    """What filters and orders name."""
    return {
        "attributes": {
            "name": experiment.name,
            "experiment_id": experiment.id,
            "creation_time": experiment.created * 1000,
            "last_update_time": experiment.modified * 1000,
        },
        "tags": experiment.tags,
    }


def _read_experiment_name(params: Params, name: str) -> str:
    found = require(params, name)
    if len(found) > _LONGEST_EXPERIMENT:
        raise invalid(f"'{name}' exceeds the maximum length of {_LONGEST_EXPERIMENT} characters")
    return found


def _experiment_exists(name: str) -> ApiFault:
    return exists(f"Experiment(name={name}) already exists.")

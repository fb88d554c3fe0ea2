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
from stoker.platform.model.paging import make_page
from stoker.platform.tracking.job_facts import make_trial_name
from stoker.platform.tracking.logged_models import LoggedModelOperations
from stoker.platform.tracking.mlflow_shapes import (
    STATUSES,
    RunView,
    read_pairs,
    read_point,
    show_experiment,
    show_point,
)
from stoker.platform.tracking.tracked import (
    Answer,
    Operation,
    Params,
    add_experiment,
    find_or_add,
    join_trial,
)
from stoker.tracking.memberships import DEFAULT_EXPERIMENT, Memberships
from stoker.tracking.records import Experiment, Run, Trial
from stoker.tracking.run_filter import Facts, FilterInvalid, parse_filter, parse_key
from stoker.tracking.store import RecordExists, RecordMissing, RunStore

_NOT_FOUND = 404
_MOST_ROWS = 1000
_MOST_POINTS = 25_000


class MlflowOperations:
    """Safe to call from several threads."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._known: tuple[object, RunView, list[tuple[Facts, Run]]] | None = None

    def operations(self) -> dict[str, Operation]:
        """Method and path behind /api/2.0/mlflow/ → what answers it."""
        return {
            "POST experiments/create": self._create_experiment,
            "GET experiments/get": lambda p: self._show_experiment(self._experiment(p)),
            "GET experiments/get-by-name": self._get_by_name,
            "POST experiments/search": self._search_experiments,
            "POST experiments/update": self._rename_experiment,
            "POST experiments/delete": lambda p: self._hide_experiment(p, hidden=True),
            "POST experiments/restore": lambda p: self._hide_experiment(p, hidden=False),
            "POST experiments/set-experiment-tag": self._tag_experiment,
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
            **LoggedModelOperations(self._store).operations(),
        }

    # ---- experiments

    def _default(self) -> Experiment:
        return find_or_add(
            self._store,
            Experiment,
            DEFAULT_EXPERIMENT,
            lambda: add_experiment(self._store, DEFAULT_EXPERIMENT),
        )

    def _experiment(self, params: Params) -> Experiment:
        id_ = str(params.get("experiment_id", "0"))
        try:
            return self._default() if id_ == "0" else self._store.read_id(Experiment, id_)
        except RecordMissing:
            raise _missing(f"No Experiment with id={id_} exists") from None

    def _show_experiment(self, experiment: Experiment) -> Answer:
        return {"experiment": show_experiment(experiment)}

    def _get_by_name(self, params: Params) -> Answer:
        name = _require(params, "experiment_name")
        if name == DEFAULT_EXPERIMENT:
            return self._show_experiment(self._default())
        return self._show_experiment(self._experiment_named(name))

    def _create_experiment(self, params: Params) -> Answer:
        self._default()
        fields = {"tags": read_pairs(params.get("tags", ()))}
        if params.get("artifact_location"):
            fields["artifact_uri"] = params["artifact_location"]
        try:
            made = add_experiment(self._store, _require(params, "name"), **fields)
        except RecordExists:
            raise _exists(params["name"]) from None
        return {"experiment_id": made.id}

    def _search_experiments(self, params: Params) -> Answer:
        self._default()
        conditions = _parse(params.get("filter", ""))
        kept = [
            each
            for each in self._store.read_all(Experiment)
            if _is_wanted(params.get("view_type", "ACTIVE_ONLY"), is_deleted=each.is_deleted)
            and all(
                condition.holds(
                    {
                        "attributes": {"name": each.name},
                        "tags": each.tags,
                        "metrics": {},
                        "params": {},
                    }
                )
                for condition in conditions
            )
        ]
        page = _make_rows(kept, params, key=lambda each: (each.modified, each.name))
        return {"experiments": [show_experiment(each) for each in page.rows], **_more(page.token)}

    def _rename_experiment(self, params: Params) -> Answer:
        old, new = self._experiment(params), _require(params, "new_name")
        with self._store.transaction():
            try:
                self._store.change(Experiment, old.name, lambda each: replace(each, name=new))
            except RecordExists:
                raise _exists(new) from None
            for trial in self._store.read_all(Trial):
                if trial.experiment == old.name:
                    self._store.change(Trial, trial.name, lambda t: replace(t, experiment=new))
        return {}

    def _hide_experiment(self, params: Params, *, hidden: bool) -> Answer:
        name = self._experiment(params).name
        self._store.change(Experiment, name, lambda each: replace(each, is_deleted=hidden))
        return {}

    def _tag_experiment(self, params: Params) -> Answer:
        name, new = self._experiment(params).name, read_pairs([params])
        self._store.change(Experiment, name, lambda each: replace(each, tags={**each.tags, **new}))
        return {}

    # ---- runs

    def _run(self, params: Params) -> Run:
        id_ = str(params.get("run_id") or params.get("run_uuid"))
        try:
            return self._store.read_id(Run, id_)
        except RecordMissing:
            raise _missing(f"Run with id={id_} not found") from None

    def _view(self, run: Run | None = None) -> RunView:
        """Of one run, or of all: the metrics of many take a while."""
        summaries = self._store.summaries(None if run is None else [run.name])
        return RunView(Memberships(self._store), self._store.read_all(Experiment), summaries)

    def _show_run(self, run: Run) -> Answer:
        return self._view(run).show(run)

    def _create_run(self, params: Params) -> Answer:
        experiment = self._experiment(params)
        tags = read_pairs(params.get("tags", ()))
        id_, now = uuid.uuid4().hex, time.time()
        title = params.get("run_name") or tags.get("mlflow.runName") or f"run-{id_[:8]}"
        slug = re.sub(r"[^a-z0-9]+", "-", f"{experiment.name}-{title}".lower()).strip("-")[:100]
        run = Run(
            name=f"{slug}-{id_[:8]}",
            id=id_,
            title=title,
            status="InProgress",
            created=now,
            modified=now,
            started=int(params["start_time"]) / 1000 if params.get("start_time") else now,
            tags={**tags, "mlflow.runName": title},
        )
        with self._store.transaction():
            self._store.add(run)
            if experiment.name != DEFAULT_EXPERIMENT:
                self._join(experiment, run.name)
        return {"run": self._show_run(run)}

    def _update_run(self, params: Params) -> Answer:
        fields: dict[str, Any] = {}
        if params.get("status") in STATUSES:
            fields["status"] = STATUSES[params["status"]]
        if params.get("end_time"):
            fields["ended"] = int(params["end_time"]) / 1000
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
        points = [(_require(each, "key"), read_point(each)) for each in metrics]
        new, labels = read_pairs(params_), read_pairs(tags)
        moved_to = labels.pop(MOVE_TAG, "")
        with self._store.transaction():
            run = self._run(params)
            if moved_to:
                self._move(run, moved_to)
            for key, value in new.items():
                if key in run.parameters and str(run.parameters[key]) != value:
                    raise _invalid(
                        f"Changing param values is not allowed. Param with key='{key}' was "
                        f"already logged with value='{run.parameters[key]}' for run "
                        f"ID='{run.id}'. Attempted logging new value '{value}'."
                    )
            self._store.log(run.name, points)
            if new or labels:
                self._change(
                    params, parameters={**run.parameters, **new}, tags={**run.tags, **labels}
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
            raise _missing(f"Could not find experiment with name '{name}'") from None

    def _join(self, experiment: Experiment, run: str) -> None:
        """Make a run a member of an experiment: of the trial that SDK v2 uses, too."""
        now = time.time()
        group = make_trial_name(experiment.name)
        trial = Trial(name=group, experiment=experiment.name, created=now, modified=now)
        made = find_or_add(self._store, Trial, group, lambda: trial)
        join_trial(self._store, made.name, run)

    def _delete_tag(self, params: Params) -> Answer:
        run = self._run(params)
        kept = {key: value for key, value in run.tags.items() if key != params.get("key")}
        return self._change(params, tags=kept)

    def _search_runs(self, params: Params) -> Answer:
        conditions = _parse(params.get("filter", ""))
        wanted = {str(id_) for id_ in params.get("experiment_ids", ())}
        which = params.get("run_view_type", "ACTIVE_ONLY")
        view, runs = self._read_runs()
        kept = [
            (facts, run)
            for facts, run in runs
            if _is_wanted(which, is_deleted=run.is_deleted)
            and view.experiment_of(run).id in wanted
            and all(condition.holds(facts) for condition in conditions)
        ]
        # From the last criterion to the first: sorting keeps the order of equals.
        kept.sort(key=lambda pair: (-(pair[1].started or pair[1].created), pair[1].id))
        for criterion in reversed(params.get("order_by", ())):
            path, _, way = str(criterion).strip().partition(" ")
            group, key = parse_key(path)
            _sort(kept, group, key, is_falling=way.strip().upper() == "DESC")
        start, size = _read_start(params), int(params.get("max_results", _MOST_ROWS))
        page = kept[start : start + size]
        token = str(start + size) if len(kept) > start + size else ""
        return {"runs": [view.show(run) for _, run in page], **_more(token)}

    def _read_runs(self) -> tuple[RunView, list[tuple[Facts, Run]]]:
        """All runs; read again only if anything has changed."""
        known, version = self._known, self._store.version()
        if known is None or known[0] != version:
            view = self._view()
            runs: list[tuple[Facts, Run]] = [
                (view.facts(run), run) for run in self._store.read_all(Run)
            ]
            self._known = known = (version, view, runs)
        return known[1], known[2]

    def _get_history(self, params: Params) -> Answer:
        run, key = self._run(params), _require(params, "metric_key")
        points = self._store.read_points(run.name, key)
        start = _read_start(params)
        size = int(params.get("max_results", _MOST_POINTS))
        token = str(start + size) if len(points) > start + size else ""
        page = points[start : start + size]
        return {"metrics": [show_point(key, point) for point in page], **_more(token)}


def _sort(kept: list[tuple[Any, Run]], group: str, key: str, *, is_falling: bool) -> None:
    """Runs without the value come last, whichever the direction."""

    def value(pair: tuple[Any, Run]) -> Any:  # noqa: ANN401 - a number or a text
        return pair[0][group].get(key)

    present = [pair for pair in kept if value(pair) is not None]
    absent = [pair for pair in kept if value(pair) is None]
    try:
        present.sort(key=lambda pair: float(value(pair)), reverse=is_falling)
    except ValueError:
        present.sort(key=lambda pair: str(value(pair)), reverse=is_falling)
    kept[:] = present + absent


def _make_rows(rows: Iterable[Experiment], params: Params, *, key: Any) -> Any:  # noqa: ANN401 - a key function, a Page
    asked = {"SortOrder": "Descending", "MaxResults": int(params.get("max_results", _MOST_ROWS))}
    if params.get("page_token"):
        asked["NextToken"] = params["page_token"]
    return make_page(rows, asked, key=key)


def _more(token: str) -> dict[str, str]:
    return {"next_page_token": token} if token else {}


def _read_start(params: Params) -> int:
    token = str(params.get("page_token") or "0")
    if not re.fullmatch("[0-9]{1,18}", token):
        raise _invalid(f"page_token '{token}' is not one that this platform gave")
    return int(token)


def _parse(text: str) -> Any:  # noqa: ANN401 - a list of conditions
    try:
        return parse_filter(text or "")
    except FilterInvalid as error:
        raise _invalid(f"{error.message}; fix: {error.fix}") from error


def _is_wanted(view: str, *, is_deleted: bool) -> bool:
    return view == "ALL" or is_deleted == (view == "DELETED_ONLY")


def _require(params: Mapping[str, Any], name: str) -> str:
    if not params.get(name):
        raise _invalid(f"Missing value for required parameter '{name}'")
    return str(params[name])


def _exists(name: str) -> ApiFault:
    return ApiFault("RESOURCE_ALREADY_EXISTS", f"Experiment(name={name}) already exists.")


def _missing(text: str) -> ApiFault:
    return ApiFault("RESOURCE_DOES_NOT_EXIST", text, status=_NOT_FOUND)


def _invalid(text: str) -> ApiFault:
    return ApiFault("INVALID_PARAMETER_VALUE", text)

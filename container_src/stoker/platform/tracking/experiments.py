"""The operations of experiments and trials."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stoker.platform.model.faults import validation
from stoker.platform.model.paging import make_page
from stoker.platform.tracking.tracked import (
    Answer,
    Operation,
    Params,
    add_experiment,
    is_created_within,
    make_arn,
    read_tags,
    refusing,
)
from stoker.tracking.memberships import Memberships
from stoker.tracking.records import Experiment, Record, Trial
from stoker.tracking.store import RunStore


class ExperimentOperations:
    """Safe to call from several threads."""

    def __init__(self, store: RunStore) -> None:
        self._store = store

    def operations(self) -> dict[str, Operation]:
        """The rows of the service's table."""
        return {
            "CreateExperiment": self._create_experiment,
            "DescribeExperiment": lambda params: show_experiment(self._experiment(params)),
            "UpdateExperiment": self._update_experiment,
            "DeleteExperiment": self._delete_experiment,
            "ListExperiments": self._list_experiments,
            "CreateTrial": self._create_trial,
            "DescribeTrial": lambda params: show_trial(self._trial(params)),
            "UpdateTrial": self._update_trial,
            "DeleteTrial": self._delete_trial,
            "ListTrials": self._list_trials,
        }

    # ---- experiments

    def _create_experiment(self, params: Params) -> Answer:
        name = params["ExperimentName"]
        with refusing("Experiment", name):
            add_experiment(
                self._store,
                name,
                title=params.get("DisplayName", ""),
                description=params.get("Description", ""),
                tags=read_tags(params.get("Tags", ())),
            )
        return {"ExperimentArn": make_arn(Experiment, name)}

    def _experiment(self, params: Params) -> Experiment:
        with refusing("Experiment", params["ExperimentName"]):
            return self._store.read(Experiment, params["ExperimentName"])

    def _update_experiment(self, params: Params) -> Answer:
        with refusing("Experiment", params["ExperimentName"]):
            self._store.change(
                Experiment, params["ExperimentName"], lambda record: _update(record, params)
            )
        return {"ExperimentArn": make_arn(Experiment, params["ExperimentName"])}

    def _delete_experiment(self, params: Params) -> Answer:
        name = self._experiment(params).name
        with self._store.transaction():
            trials = [t for t in self._store.read_all(Trial) if _is_in(t, name)]
            if trials:
                raise validation(
                    f"Experiment '{name}' has {len(trials)} trials; delete them first: "
                    + ", ".join(trial.name for trial in trials[:5])
                )
            self._store.remove(Experiment, name)
        return {"ExperimentArn": make_arn(Experiment, name)}

    def _list_experiments(self, params: Params) -> Answer:
        found = [
            each
            for each in self._store.read_all(Experiment)
            if is_created_within(each.created, params) and not each.is_deleted
        ]
        page = make_page(found, newest_first(params), key=sorting(params))
        return {
            "ExperimentSummaries": [_without_tags(show_experiment(e)) for e in page.rows],
            **page.more,
        }

    # ---- trials

    def _create_trial(self, params: Params) -> Answer:
        experiment, name = self._experiment(params), params["TrialName"]
        now = time.time()
        with refusing("Trial", name):
            self._store.add(
                Trial(
                    name=name,
                    experiment=experiment.name,
                    title=params.get("DisplayName", ""),
                    tags=read_tags(params.get("Tags", ())),
                    created=now,
                    modified=now,
                )
            )
        return {"TrialArn": make_arn(Trial, name)}

    def _trial(self, params: Params) -> Trial:
        with refusing("Trial", params["TrialName"]):
            return self._store.read(Trial, params["TrialName"])

    def _update_trial(self, params: Params) -> Answer:
        with refusing("Trial", params["TrialName"]):
            self._store.change(Trial, params["TrialName"], lambda record: _update(record, params))
        return {"TrialArn": make_arn(Trial, params["TrialName"])}

    def _delete_trial(self, params: Params) -> Answer:
        with self._store.transaction():
            trial = self._trial(params)
            members = self._store.links(source=trial.node)
            if members:
                raise validation(
                    f"Trial '{trial.name}' has {len(members)} trial components; disassociate "
                    "them first."
                )
            self._store.remove(Trial, trial.name)
        return {"TrialArn": make_arn(Trial, trial.name)}

    def _list_trials(self, params: Params) -> Answer:
        found = [t for t in self._store.read_all(Trial) if is_created_within(t.created, params)]
        if "ExperimentName" in params:
            self._experiment(params)
            found = [trial for trial in found if _is_in(trial, params["ExperimentName"])]
        if "TrialComponentName" in params:
            own = Memberships(self._store).trials_of.get(params["TrialComponentName"].lower(), ())
            names = {trial.name for trial in own}
            found = [trial for trial in found if trial.name in names]
        page = make_page(found, newest_first(params), key=sorting(params))
        return {
            "TrialSummaries": [_without_tags(show_trial(trial)) for trial in page.rows],
            **page.more,
        }


def show_experiment(record: Experiment) -> Answer:
    """DescribeExperiment's answer; Search adds the tags."""
    shown = {
        "ExperimentName": record.name,
        "ExperimentArn": make_arn(Experiment, record.name),
        **show_common(record),
    }
    return {**shown, "Description": record.description} if record.description else shown


def show_trial(record: Trial) -> Answer:
    """DescribeTrial's answer."""
    return {
        "TrialName": record.name,
        "TrialArn": make_arn(Trial, record.name),
        "ExperimentName": record.experiment,
        **show_common(record),
    }


def show_common(record: Record) -> Answer:
    """What the answers of every kind have."""
    return {
        "DisplayName": record.title or record.name,
        "CreationTime": record.created,
        "LastModifiedTime": record.modified,
        "CreatedBy": {},
        "LastModifiedBy": {},
    }


def newest_first(params: Params) -> Params:
    """The order of these lists, unless a request has another."""
    return {"SortOrder": "Descending", **params}


def sorting(params: Params) -> Any:  # noqa: ANN401 - a key function
    """What a list of records is sorted by."""
    if params.get("SortBy") == "Name":
        return lambda record: (record.name,)
    return lambda record: (record.created, record.name)


def _without_tags(shown: Mapping[str, Any]) -> Answer:
    left_out = {"Description", "CreatedBy", "LastModifiedBy", "ExperimentName"}
    if "TrialName" not in shown:
        left_out.remove("ExperimentName")
    return {key: value for key, value in shown.items() if key not in left_out}


def _update(record: Any, params: Params) -> Any:  # noqa: ANN401 - an Experiment or a Trial
    return replace(
        record,
        title=params.get("DisplayName", record.title),
        description=params.get("Description", record.description),
        modified=time.time(),
    )


def _is_in(trial: Trial, experiment: str) -> bool:
    return trial.experiment.lower() == experiment.lower()

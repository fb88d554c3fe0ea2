"""The operations of trial components, which are the runs of the store."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from stoker.platform.model.faults import validation
from stoker.platform.model.paging import make_page
from stoker.platform.tracking.experiments import newest_first, show_common, sorting
from stoker.platform.tracking.tracked import (
    Answer,
    Operation,
    Params,
    is_created_within,
    join_trial,
    leave_trial,
    make_arn,
    make_run,
    read_tags,
    refusing,
)
from stoker.tracking.memberships import Memberships
from stoker.tracking.records import Artifact, Experiment, Run, Trial
from stoker.tracking.series import MOST_SECONDS, Summary
from stoker.tracking.store import RunStore

T = TypeVar("T")
_MOST = {"Parameters": 300, "InputArtifacts": 60, "OutputArtifacts": 60}


class TrialComponentOperations:
    """Safe to call from several threads."""

    def __init__(self, store: RunStore) -> None:
        self._store = store

    def operations(self) -> dict[str, Operation]:
        """The rows of the service's table."""
        return {
            "CreateTrialComponent": self._create,
            "DescribeTrialComponent": self._describe,
            "UpdateTrialComponent": self._update,
            "DeleteTrialComponent": self._delete,
            "ListTrialComponents": self._list,
            "AssociateTrialComponent": self._associate,
            "DisassociateTrialComponent": self._disassociate,
        }

    def _create(self, params: Params) -> Answer:
        name = params["TrialComponentName"]
        run = _apply(make_run(name, tags=read_tags(params.get("Tags", ()))), params)
        with refusing("Trial Component", name):
            self._store.add(run)
        return {"TrialComponentArn": make_arn(Run, name)}

    def _describe(self, params: Params) -> Answer:
        run = self._run(params)
        return show_run(run, self._store.summaries_of(run.name))

    def _update(self, params: Params) -> Answer:
        name = params["TrialComponentName"]
        with refusing("Trial Component", name):
            self._store.change(Run, name, lambda run: _apply(run, params))
        return {"TrialComponentArn": make_arn(Run, name)}

    def _delete(self, params: Params) -> Answer:
        with self._store.transaction():
            run = self._run(params)
            trials = [link.source for link in self._store.links(target=run.node)]
            if trials:
                names = ", ".join(node.removeprefix("trial/") for node in trials[:5])
                raise validation(
                    f"Trial Component '{run.name}' is associated with {len(trials)} trials; "
                    f"disassociate it first: {names}"
                )
            self._store.remove(Run, run.name)
            self._store.unlink_all(make_arn(Run, run.name))
        return {"TrialComponentArn": make_arn(Run, run.name)}

    def _list(self, params: Params) -> Answer:
        runs = [run for run in self._store.read_all(Run) if not run.is_deleted]
        found = [run for run in runs if is_created_within(run.created, params)]
        if "SourceArn" in params:
            wanted = params["SourceArn"].lower()
            found = [run for run in found if run.source.lower() == wanted]
        if "ExperimentName" in params or "TrialName" in params:
            names = self._members(params)
            found = [run for run in found if run.name.lower() in names]
        page = make_page(found, newest_first(params), key=sorting(params))
        return {"TrialComponentSummaries": [_summarise(run) for run in page.rows], **page.more}

    def _members(self, params: Params) -> set[str]:
        members = Memberships(self._store)
        if "TrialName" in params:
            return set(members.runs_of.get(self._trial(params).name.lower(), ()))
        with refusing("Experiment", params["ExperimentName"]):
            experiment = self._store.read(Experiment, params["ExperimentName"]).name
        return {
            run
            for run, trials in members.trials_of.items()
            if any(trial.experiment == experiment for trial in trials)
        }

    def _associate(self, params: Params) -> Answer:
        with self._store.transaction():
            run, trial = self._run(params), self._trial(params)
            join_trial(self._store, trial.name, run.name)
        return _show_pair(run, trial)

    def _disassociate(self, params: Params) -> Answer:
        with self._store.transaction():
            run, trial = self._run(params), self._trial(params)
            if not leave_trial(self._store, trial.name, run.name):
                raise validation(
                    f"Trial Component '{run.name}' is not associated with trial '{trial.name}'."
                )
        return _show_pair(run, trial)

    def _run(self, params: Params) -> Run:
        with refusing("Trial Component", params["TrialComponentName"]):
            return self._store.read(Run, params["TrialComponentName"])

    def _trial(self, params: Params) -> Trial:
        with refusing("Trial", params["TrialName"]):
            return self._store.read(Trial, params["TrialName"])


def _show_pair(run: Run, trial: Trial) -> Answer:
    return {
        "TrialComponentArn": make_arn(Run, run.name),
        "TrialArn": make_arn(Trial, trial.name),
    }


def _apply(run: Run, params: Params) -> Run:
    """A run with what a create or update call says; names it does not mention stay."""
    status = params.get("Status", {})
    return replace(
        run,
        title=params.get("DisplayName", run.title),
        status=status.get("PrimaryStatus", run.status),
        message=status.get("Message", "" if status else run.message),
        started=params.get("StartTime", run.started),
        ended=params.get("EndTime", run.ended),
        parameters=_merge(run, run.parameters, params, "Parameters", _read_parameter),
        inputs=_merge(run, run.inputs, params, "InputArtifacts", _read_artifact),
        outputs=_merge(run, run.outputs, params, "OutputArtifacts", _read_artifact),
        modified=time.time(),
    )


def _merge(
    run: Run, kept: Mapping[str, T], params: Params, part: str, read: Callable[[str, Params], T]
) -> dict[str, T]:
    new = {name: read(name, each) for name, each in params.get(part, {}).items()}
    gone = set(params.get(f"{part}ToRemove", ()))
    merged = {name: each for name, each in {**kept, **new}.items() if name not in gone}
    if len(merged) > _MOST[part]:
        raise validation(
            f"A trial component may have {_MOST[part]} {part}; '{run.name}' would have "
            f"{len(merged)}."
        )
    return merged


def _read_parameter(name: str, value: Params) -> str | float:
    if len(value) != 1:
        raise validation(f"Parameter '{name}' must have StringValue or NumberValue, and not both.")
    found: str | float = next(iter(value.values()))
    return found if isinstance(found, str) else float(found)


def _read_artifact(_name: str, value: Params) -> Artifact:
    return Artifact(uri=value["Value"], media_type=value.get("MediaType", ""))


def show_run(run: Run, summaries: list[Summary]) -> Answer:
    """DescribeTrialComponent's answer; Search adds tags and parents."""
    return {
        **_summarise(run, source="Source"),
        "Parameters": {name: _show_parameter(value) for name, value in run.parameters.items()},
        "InputArtifacts": {name: _show_artifact(each) for name, each in run.inputs.items()},
        "OutputArtifacts": {name: _show_artifact(each) for name, each in run.outputs.items()},
        "Metrics": [_show_summary(run, summary) for summary in summaries],
    }


def _summarise(run: Run, source: str = "TrialComponentSource") -> Answer:
    shown: Answer = {
        "TrialComponentName": run.name,
        "TrialComponentArn": make_arn(Run, run.name),
        **show_common(run),
    }
    if run.source:
        shown[source] = {"SourceArn": run.source, "SourceType": run.source_type}
    if run.status:
        shown["Status"] = {"PrimaryStatus": run.status, "Message": run.message}
    times = {"StartTime": run.started, "EndTime": run.ended}
    return {**shown, **{key: value for key, value in times.items() if value is not None}}


def _show_parameter(value: str | float) -> Answer:
    return {"StringValue": value} if isinstance(value, str) else {"NumberValue": value}


def _show_artifact(artifact: Artifact) -> Answer:
    media = {"MediaType": artifact.media_type} if artifact.media_type else {}
    return {**media, "Value": artifact.uri}


def _show_summary(run: Run, summary: Summary) -> Answer:
    numbers = {
        "Max": summary.high,
        "Min": summary.low,
        "Avg": summary.mean,
        "StdDev": summary.deviation,
    }
    return {
        "MetricName": summary.name,
        "SourceArn": run.source or make_arn(Run, run.name),
        # MLflow's clients may have sent nanoseconds: one such time, and boto3 reads no answer.
        "TimeStamp": min(max(0.0, summary.last.time_ms / 1000), MOST_SECONDS),
        "Last": summary.last.value,
        "Count": summary.count,
        **{name: value for name, value in numbers.items() if value is not None},
    }

"""The trials of a tuning job: its records, their training jobs and what those reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stoker.platform.jobs.series import MetricSeries
from stoker.platform.jobs.state import JobRecord
from stoker.platform.jobs.store import Store, UnknownJob
from stoker.platform.tuning.request import TuningRequest
from stoker.platform.tuning.state import TrialRecord, TuningRecord
from stoker.tuning.study import Goal, Study, Trial, TrialState
from stoker.tuning.warm_start import make_earlier

_STATES = {
    "Completed": TrialState.COMPLETED,
    "Stopped": TrialState.STOPPED,
    "Failed": TrialState.FAILED,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialView:
    """A trial with its training job and its values."""

    record: TrialRecord
    job: JobRecord | None
    """None until it is created, or if it was refused."""

    trial: Trial

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes."""
        return _is_over(self.record, self.job)

    @property
    def failure(self) -> str:
        """Why it failed, or has no objective; empty if neither is so."""
        if self.record.refusal:
            return self.record.refusal
        if not self.is_over or self.trial.objective is not None:
            return ""
        if self.job is None:
            return "its training job was deleted"
        verdict = self.job.verdict
        if verdict is not None and verdict.failure_reason:
            return verdict.failure_reason
        return f"the objective is in no line of its log; it ended as {self.job.status}"


class TrialReader:
    """Reads the trials of one tuning job; what has ended is read once."""

    def __init__(self, store: Store, series: MetricSeries) -> None:
        self._store = store
        self._series = series
        self._over: dict[str, TrialView] = {}

    def read(self, record: TuningRecord, request: TuningRequest) -> list[TrialView]:
        """All trials, in their order."""
        views = []
        for trial in record.trials:
            over = self._over.get(trial.job)
            if over is not None:
                view = replace(over, record=trial)
            else:
                view = self._read_one(trial, request.definitions[trial.definition].metric)
                if view.is_over:
                    self._over[trial.job] = view
            views.append(view)
        return views

    def _read_one(self, record: TrialRecord, metric: str) -> TrialView:
        try:
            job = None if record.refusal else self._store.read(record.job)
        except UnknownJob:
            job = None
        curve = read_curve(self._series, record.job, metric, since=_curve_begins(job))
        state = _find_state(record, job)
        is_final = _is_over(record, job) and state is not TrialState.FAILED
        objective = record.objective
        if objective is None and is_final and curve:
            objective = curve[-1]
        trial = Trial(
            number=record.number,
            parameters=record.parameters,
            state=state,
            curve=curve,
            objective=objective,
        )
        return TrialView(record=record, job=job, trial=trial)


def _is_over(record: TrialRecord, job: JobRecord | None) -> bool:
    if job is None:
        return bool(record.refusal) or record.is_created
    return job.stage == "ended"


def _find_state(record: TrialRecord, job: JobRecord | None) -> TrialState:
    if job is None:
        lost = TrialState.FAILED if _is_over(record, job) else TrialState.RUNNING
        return _STATES.get(record.status, lost)
    if job.stage == "ended":
        return _STATES[job.status]
    is_paused = job.stage == "interrupted" and job.pause_asked
    return TrialState.PAUSED if is_paused else TrialState.RUNNING


def _curve_begins(job: JobRecord | None) -> float:
    """When the training began whose values count: without checkpoints each attempt starts over."""
    if job is None or not job.attempts or "CheckpointConfig" in job.request:
        return 0.0
    return job.attempt.began or job.modified


def read_curve(
    series: MetricSeries, job: str, metric: str, *, since: float = 0.0
) -> tuple[float, ...]:
    """The objective as one host reported it: several that print the same line count once."""
    points = [point for point in series.read(job, metric) if point.time_ms >= since * 1000]
    # The leader's name is the smallest, and it is the host that most scripts log on.
    host = min((point.host for point in points), default="")
    return tuple(point.value for point in points if point.host == host)


def make_study(record: TuningRecord, request: TuningRequest, definition: int) -> Study:
    """What is searched in one training job definition."""
    defined = request.definitions[definition]
    parents = [
        [
            Trial(
                number=each.number,
                parameters=each.parameters,
                state=TrialState.COMPLETED,
                objective=each.objective,
            )
            for each in record.earlier
            if each.parent == parent
        ]
        for parent in request.parents
    ]
    return Study(
        space=defined.space,
        goal=defined.goal,
        strategy=request.strategy,
        seed=request.seed + definition,
        earlier=make_earlier(request.warm_start, parents) if request.warm_start else (),
    )


def list_objectives(request: TuningRequest, views: Sequence[TrialView]) -> list[float | None]:
    """Of the trials that ended, in the order of their ends, by the goal of the first definition.

    A definition with the opposite goal has them with the opposite sign: a loss that reaches the
    target of an accuracy would otherwise end the search.
    """
    first = request.definitions[0].goal
    objectives = []
    for view in sorted((view for view in views if view.is_over), key=_ended_at):
        objective = view.trial.objective
        is_opposite = request.definitions[view.record.definition].goal is not first
        objectives.append(-objective if objective is not None and is_opposite else objective)
    return objectives


def _ended_at(view: TrialView) -> float:
    if view.job is None:
        return 0.0
    return view.job.training_ended or view.job.modified


def find_best_view(request: TuningRequest, views: Sequence[TrialView]) -> TrialView | None:
    """The trial with the best final objective; the first of equals."""

    def cost(view: TrialView) -> float:
        goal: Goal = request.definitions[view.record.definition].goal
        return goal.cost(view.trial.objective or 0.0)

    ended = [view for view in views if view.trial.objective is not None]
    return min(ended, key=lambda view: (cost(view), view.record.number), default=None)

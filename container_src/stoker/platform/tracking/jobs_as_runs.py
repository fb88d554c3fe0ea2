"""Every job becomes a run: parameters, metrics, artifacts, status and lineage.

One thread looks at the jobs that changed, and every read is preceded by a look of its own, so
that it sees everything. What was recorded up to where is kept in the transaction of the points:
after a kill -9 nothing is lost or doubled. What jobs there are, and what they tell, `JobSource`s
say: each kind of job has one.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Any, TypeVar

from stoker.platform.jobs.context import JobContext
from stoker.platform.jobs.series import Point as LoggedPoint
from stoker.platform.tracking.job_facts import (
    SOURCE_TYPES,
    JobFacts,
    JobSource,
    make_trial_name,
)
from stoker.platform.tracking.job_lineage import link_inputs, link_outputs
from stoker.platform.tracking.tracked import add_experiment, find_or_add, join_trial, make_run
from stoker.tracking.memberships import Memberships
from stoker.tracking.records import Experiment, Record, Run, Trial
from stoker.tracking.series import Point
from stoker.tracking.store import RecordMissing, RunStore

_LOOK_SECONDS = 1.0
_PAGE_POINTS = 50_000  # one transaction, for which other writers wait
_MOST_PARAMETERS = 300  # these three: the service's limits of a trial component
_MOST_ARTIFACTS = 60
_MOST_CHARACTERS = 2500
_POINTS = "points"
PARENT_TAG = "mlflow.parentRunId"

T = TypeVar("T")
R = TypeVar("R", bound=Record)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedJob(Record):
    """How far a job is recorded; its name is the job's, of other kinds `kind/name`."""

    run: str
    began: float
    """When the job was created: its name may be another job's after DeleteTrainingJob."""

    stage: str = ""
    changed: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedPoints(Record):
    """How far the points of all jobs are recorded."""

    number: int


class JobRecorder:
    """Keeps the runs of all jobs up to date."""

    def __init__(self, context: JobContext, sources: Sequence[JobSource], runs: RunStore) -> None:
        self._context = context
        self._sources = sources
        self._runs = runs
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._seen = 0.0
        """Every job that changed before this time is recorded."""

        self._thread = threading.Thread(target=self._watch, name="job-recorder", daemon=True)

    def start(self) -> None:
        """Begin to look regularly."""
        self._thread.start()

    def stop(self) -> None:
        """Look once more, and no more: `stoker runs` reads the store while no server runs."""
        self._ended.set()
        if self._thread.ident is not None:  # it was started
            self._thread.join()

    def _watch(self) -> None:
        said, is_over = "", False
        while not is_over:
            is_over = self._ended.wait(_LOOK_SECONDS)
            try:
                self.look()
                said = ""
            except sqlite3.Error as error:  # a full disk, most likely; the next look tries again
                if said != (said := str(error)):
                    _log.error("the run store does not take it: %s", error)

    def look(self) -> None:
        """Record what has changed since the last look."""
        with self._lock:
            newest = self._seen
            for source in self._sources:
                for job in source(self._seen):
                    self.record(job)
                    newest = max(newest, job.modified)
            # Another change may have been made at the time of the newest, but not yet committed.
            self._seen = max(0.0, newest - _LOOK_SECONDS)
            while self._record_points():
                pass

    def find_run(self, job: str) -> Run | None:
        """The run of a training job that the store has recorded; None if it was deleted."""
        self.look()
        try:
            return self._runs.read(Run, self._runs.read(RecordedJob, job).run)
        except RecordMissing:
            return None

    def find_experiment(self, run: Run) -> str:
        """The one experiment that MLflow knows a run in."""
        return Memberships(self._runs).experiment_of(run.name)

    def record(self, job: JobFacts) -> None:
        """Make or update the run of a job; what is recorded already is not done again."""
        try:
            recorded = self._runs.read(RecordedJob, job.key)
        except RecordMissing:
            recorded = self._add(job)
        if recorded.began != job.created:
            self._runs.remove(RecordedJob, job.key)
            recorded = self._add(job)
        stage = "over" if job.is_over else job.status
        if (recorded.changed, recorded.stage) == (job.modified, stage):
            return
        late = job.read_end() if job.is_over and recorded.stage != "over" else {}
        done = replace(recorded, changed=job.modified, stage=stage)
        with self._runs.transaction():
            self._runs.change(RecordedJob, job.key, lambda _: done)
            try:
                run = self._runs.change(Run, recorded.run, lambda run: _update(run, job, late))
            except RecordMissing:
                return  # a client has deleted the run: so it stays
            link_outputs(self._runs, run, job.outputs)

    def _add(self, job: JobFacts) -> RecordedJob:
        """The run of a new job: the one its ExperimentConfig names, or one of its own."""
        config = job.experiment_config
        lineage = dict(job.read_lineage())
        if job.search and job.kind != "tuning":
            lineage["search"] = job.search
        with self._runs.transaction():
            name = self._find_free_run(config.get("RunName", "")) or self._make_name(job)
            new = make_run(name, title=job.title, tags=self._make_tags(job))
            find_or_add(self._runs, Run, name, lambda: new)
            run = self._runs.change(
                Run,
                name,
                lambda old: replace(
                    old, source=job.arn, source_type=SOURCE_TYPES[job.kind], lineage=lineage
                ),
            )
            link_inputs(self._runs, run.name, lineage)
            for trial in self._find_trials(job):
                join_trial(self._runs, trial, run.name)
            now = time.time()
            recorded = RecordedJob(
                name=job.key, run=run.name, began=job.created, created=now, modified=now
            )
            self._runs.add(recorded)
        return recorded

    def _make_tags(self, job: JobFacts) -> dict[str, str]:
        """The job's own; MLflow's clients find the parent of a trial by a tag."""
        tags = dict(job.tags)
        if job.search and job.kind != "tuning":
            try:
                recorded = self._runs.read(RecordedJob, f"tuning/{job.search}")
                tags[PARENT_TAG] = self._runs.read(Run, recorded.run).id
            except RecordMissing:
                pass  # it was deleted
        return tags

    def _find_free_run(self, name: str) -> str:
        """The run a job asks for, unless it is another job's already."""
        found = _find(self._runs, Run, name)
        return "" if found is not None and found.source else name

    def _make_name(self, job: JobFacts) -> str:
        """As in the service; a job that was deleted and made again gets a number."""
        again = (f"{job.name}-{number}-aws-{job.kind}-job" for number in count(2))
        names = chain([job.run_name], again)
        return next(name for name in names if _find(self._runs, Run, name) is None)

    def _find_trials(self, job: JobFacts) -> Iterator[str]:
        """The trials of a job; jobs that name only an experiment share one, as in SDK v2."""
        config = job.experiment_config
        experiment, trial = config.get("ExperimentName", ""), config.get("TrialName", "")
        if experiment:
            yield self._make_trial(experiment, trial or make_trial_name(experiment))
        elif known := _find(self._runs, Trial, trial):
            yield known.name
        if job.search:  # as the service does for each tuning job
            own = f"{job.search}-aws-tuning-job"
            yield self._make_trial(own, own)

    def _make_trial(self, experiment: str, name: str) -> str:
        found = find_or_add(
            self._runs, Experiment, experiment, lambda: add_experiment(self._runs, experiment)
        )
        now = time.time()
        # By the name of the record: the request may write it in other letters.
        made = Trial(name=name, experiment=found.name, created=now, modified=now)
        return find_or_add(self._runs, Trial, name, lambda: made).name

    def _record_points(self) -> bool:
        """One batch of new points of any jobs; False if there were none."""
        start = self._find_mark().number
        found = self._context.series.read_after(start, _PAGE_POINTS)
        if not found:
            return False
        by_job: dict[str, list[LoggedPoint]] = {}
        for _, job, point in found:
            by_job.setdefault(job, []).append(point)
        with self._runs.transaction():
            for job, points in by_job.items():
                self._log(job, points)
            self._runs.change(
                RecordedPoints, _POINTS, lambda mark: replace(mark, number=found[-1][0])
            )
        return True

    def _find_mark(self) -> RecordedPoints:
        now = time.time()
        first = RecordedPoints(name=_POINTS, number=0, created=now, modified=now)
        return find_or_add(self._runs, RecordedPoints, _POINTS, lambda: first)

    def _log(self, job: str, points: list[LoggedPoint]) -> None:
        try:
            run = self._runs.read(Run, self._runs.read(RecordedJob, job).run).name
        except RecordMissing:
            return  # a client has deleted the run
        counts = {s.name: s.count for s in self._runs.summaries_of(run)}
        numbered = []
        for each in points:
            # Any other line than job.log's has no step that scripts agree on: values are counted.
            number = counts.get(each.name, 0)
            step = number if each.step is None else each.step
            numbered.append((each.name, Point(step, each.time_ms, each.value)))
            counts[each.name] = number + 1
        self._runs.log(run, numbered)


def describe_experiment_config(runs: RunStore, config: Mapping[str, str]) -> Iterator[str]:
    """What a user of an ExperimentConfig may not expect, in one line each."""
    experiment, trial = config.get("ExperimentName", ""), config.get("TrialName", "")
    known = _find(runs, Trial, trial or make_trial_name(experiment))
    if trial and not experiment and known is None:
        yield (
            f"ExperimentConfig names the trial '{trial}', which does not exist: this job is in "
            "no experiment; fix: create the trial first, or name its experiment, too"
        )
    if experiment and _find(runs, Experiment, experiment) is None:
        yield f"ExperimentConfig names the experiment '{experiment}', which is new: it is created"
    if trial and experiment and known is None:
        yield (
            f"ExperimentConfig names the trial '{trial}', which is new: it is created in the "
            f"experiment '{experiment}'"
        )
    if experiment and known is not None and known.experiment.lower() != experiment.lower():
        yield (
            f"ExperimentConfig names the experiment '{experiment}', but the trial '{known.name}' "
            f"is in '{known.experiment}', and this job is, too; fix: use another trial name"
        )
    run = _find(runs, Run, config.get("RunName", ""))
    if run is not None and run.source:
        yield (
            f"ExperimentConfig names the run '{run.name}', which is another job's: this job has "
            "a run of its own; fix: use another run name"
        )


def _find(runs: RunStore, kind: type[R], name: str) -> R | None:
    try:
        return runs.read(kind, name) if name else None
    except RecordMissing:
        return None


def _update(run: Run, job: JobFacts, late: Mapping[str, Any]) -> Run:
    """A run with what is known about its job; what clients have logged stays."""
    parameters = {name: _shorten(value) for name, value in job.parameters.items()}
    return replace(
        run,
        status=job.status,
        message=job.message,
        started=job.started,
        ended=job.ended,
        parameters=_limit({**run.parameters, **parameters}, _MOST_PARAMETERS),
        inputs=_limit({**run.inputs, **job.inputs}, _MOST_ARTIFACTS),
        outputs=_limit({**run.outputs, **job.outputs}, _MOST_ARTIFACTS),
        lineage={**run.lineage, **late},
        modified=job.modified,
    )


def _shorten(value: str | float) -> str | float:
    return value[:_MOST_CHARACTERS] if isinstance(value, str) else value


def _limit(items: dict[str, T], most: int) -> dict[str, T]:
    return dict(list(items.items())[:most])

"""Every training job becomes a run: parameters, metrics, artifacts, status and lineage.

One thread looks at the jobs that changed, and every read is preceded by a look of its own, so
that it sees everything. What was recorded up to where is kept in the transaction of the points:
after a kill -9 nothing is lost or doubled.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeVar

from stoker.platform.jobs.context import JobContext
from stoker.platform.jobs.describe import make_arn as make_job_arn
from stoker.platform.jobs.state import JobRecord
from stoker.platform.jobs.store import JobQuery, Store
from stoker.platform.model.request import TrainingRequest, parse_request
from stoker.platform.tracking.job_lineage import link_inputs, link_model, read_lineage, read_plain
from stoker.platform.tracking.tracked import add_experiment, find_or_add, join_trial, make_run
from stoker.tracking.records import Artifact, Experiment, Record, Run, Trial
from stoker.tracking.series import Point
from stoker.tracking.store import RecordMissing, RunStore

_LOOK_SECONDS = 1.0
_PAGE_JOBS = 500
_PAGE_POINTS = 50_000
_MOST_PARAMETERS = 300
_MOST_ARTIFACTS = 60
_MOST_CHARACTERS = 2500
_POINTS = "points"

T = TypeVar("T")
R = TypeVar("R", bound=Record)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedJob(Record):
    """How far a job is recorded; its name is the job's."""

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

    def __init__(self, context: JobContext, jobs: Store, runs: RunStore) -> None:
        self._context = context
        self._jobs = jobs
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
        """Look no more."""
        self._ended.set()
        if self._thread.ident is not None:  # it was started
            self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            try:
                self.look()
            except sqlite3.Error as error:  # a full disk, most likely; the next look tries again
                _log.error("the run store does not take it: %s", error)

    def look(self) -> None:
        """Record what has changed since the last look."""
        with self._lock:
            newest = self._seen
            for job in self._changed():
                self._record(job)
                newest = max(newest, job.modified)
            # Another change may have been made at the time of the newest, but not yet committed.
            self._seen = max(0.0, newest - _LOOK_SECONDS)
            while self._record_points():
                pass

    def _changed(self) -> Iterator[JobRecord]:
        after = None
        while True:
            query = JobQuery(limit=_PAGE_JOBS, after=after, modified=(self._seen, None))
            page = self._jobs.page(query)
            yield from page
            if len(page) < _PAGE_JOBS:
                return
            after = (page[-1].created, page[-1].name)

    def _record(self, job: JobRecord) -> None:
        request = parse_request(job.request)
        try:
            recorded = self._runs.read(RecordedJob, job.name)
        except RecordMissing:
            recorded = self._add(job, request)
        if recorded.began != job.created:
            self._runs.remove(RecordedJob, job.name)
            recorded = self._add(job, request)
        if (recorded.changed, recorded.stage) == (job.modified, job.stage):
            return
        done = replace(recorded, changed=job.modified, stage=job.stage)
        with self._runs.transaction():
            self._runs.change(RecordedJob, job.name, lambda _: done)
            try:
                run = self._runs.change(Run, recorded.run, lambda run: _update(run, job, request))
                if job.model_uri:
                    link_model(self._runs, run, job.model_uri)
            except RecordMissing:
                return  # a client has deleted the run: so it stays

    def _add(self, job: JobRecord, request: TrainingRequest) -> RecordedJob:
        """The run of a new job: the one its ExperimentConfig names, or one of its own."""
        config: Mapping[str, str] = job.request.get("ExperimentConfig", {})
        lineage = read_lineage(request, self._context)
        title = config.get("TrialComponentDisplayName", "")
        with self._runs.transaction():
            name = self._find_free_run(config.get("RunName", "")) or self._make_name(job)
            find_or_add(
                self._runs, Run, name, lambda: make_run(name, title=title, tags=dict(job.tags))
            )
            run = self._runs.change(
                Run,
                name,
                lambda old: replace(
                    old,
                    source=make_job_arn(job.name),
                    source_type="SageMakerTrainingJob",
                    lineage=lineage,
                ),
            )
            link_inputs(self._runs, run.name, lineage)
            if trial := self._find_trial(config):
                join_trial(self._runs, trial, run.name)
            now = time.time()
            recorded = RecordedJob(
                name=job.name, run=run.name, began=job.created, created=now, modified=now
            )
            self._runs.add(recorded)
        return recorded

    def _find_free_run(self, name: str) -> str:
        """The run a job asks for, unless it is another job's already."""
        try:
            return "" if not name or self._runs.read(Run, name).source else name
        except RecordMissing:
            return name

    def _make_name(self, job: JobRecord) -> str:
        """As in the service; a job that was deleted and made again gets a number."""
        name = f"{job.name}-aws-training-job"
        known = {run.name.lower() for run in self._runs.read_all(Run)}
        numbered = (f"{job.name}-{number}-aws-training-job" for number in count(2))
        return (
            name
            if name.lower() not in known
            else next(each for each in numbered if each.lower() not in known)
        )

    def _find_trial(self, config: Mapping[str, str]) -> str:
        """The trial of a job; jobs that name only an experiment share one, as in SDK v2."""
        experiment, trial = config.get("ExperimentName", ""), config.get("TrialName", "")
        if not experiment:
            try:
                return self._runs.read(Trial, trial).name if trial else ""
            except RecordMissing:
                return ""
        find_or_add(
            self._runs, Experiment, experiment, lambda: add_experiment(self._runs, experiment)
        )
        name = trial or _make_trial_name(experiment)
        now = time.time()
        made = Trial(name=name, experiment=experiment, created=now, modified=now)
        return find_or_add(self._runs, Trial, name, lambda: made).name

    def _record_points(self) -> bool:
        """One batch of new points of any jobs; False if there were none."""
        start = self._find_mark().number
        found = self._context.series.read_after(start, _PAGE_POINTS)
        if not found:
            return False
        by_job: dict[str, list[tuple[str, int, float]]] = {}
        for _, job, point in found:
            by_job.setdefault(job, []).append((point.name, point.time_ms, point.value))
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

    def _log(self, job: str, points: list[tuple[str, int, float]]) -> None:
        try:
            run = self._runs.read(Run, self._runs.read(RecordedJob, job).run).name
        except RecordMissing:
            return  # a client has deleted the run
        counts = {s.name: s.count for s in self._runs.summaries([run]).get(run.lower(), ())}
        numbered = []
        for name, time_ms, value in points:
            # A line of a log has no step that all scripts agree on: values are counted.
            numbered.append((name, Point(counts.get(name, 0), time_ms, value)))
            counts[name] = counts.get(name, 0) + 1
        self._runs.log(run, numbered)


def describe_experiment_config(runs: RunStore, config: Mapping[str, str]) -> Iterator[str]:
    """What a user of an ExperimentConfig may not expect, in one line each."""
    experiment, trial = config.get("ExperimentName", ""), config.get("TrialName", "")
    known = _find(runs, Trial, trial or _make_trial_name(experiment))
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


def _make_trial_name(experiment: str) -> str:
    return f"Default-Run-Group-{experiment}"[:120]


def _update(run: Run, job: JobRecord, request: TrainingRequest) -> Run:
    """A run with what is known about its job; what clients have logged stays."""
    message = job.verdict.failure_reason if job.verdict else ""
    parameters = {
        **{name: _shorten(read_plain(v)) for name, v in request.hyperparameters.items()},
        "SageMaker.InstanceCount": float(len(request.hosts)),
        "SageMaker.InstanceType": request.groups[0].instance_type,
        "SageMaker.VolumeSizeInGB": float(request.volume_gb),
    }
    inputs = {
        **{c.name: Artifact(uri=c.uri, media_type=c.content_type or "") for c in request.channels},
        "SageMaker.ImageUri": Artifact(uri=request.image),
    }
    outputs = {"SageMaker.ModelArtifact": Artifact(uri=job.model_uri)} if job.model_uri else {}
    return replace(
        run,
        status=job.status,
        message=message or job.transitions[-1].message,
        started=job.training_started,
        ended=job.training_ended if job.stage == "ended" else None,
        parameters=_limit({**run.parameters, **parameters}, _MOST_PARAMETERS),
        inputs=_limit({**run.inputs, **inputs}, _MOST_ARTIFACTS),
        outputs=_limit({**run.outputs, **outputs}, _MOST_ARTIFACTS),
        modified=job.modified,
    )


def _shorten(value: str | float) -> str | float:
    return value[:_MOST_CHARACTERS] if isinstance(value, str) else value


def _limit(items: dict[str, T], most: int) -> dict[str, T]:
    return dict(list(items.items())[:most])

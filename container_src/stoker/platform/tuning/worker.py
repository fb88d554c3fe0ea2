"""One tuning job from its first trial to its end, in a thread of its own.

It only looks and records: every trial is recorded before its training job is created, under a
name that follows from its number, so a killed server loses, doubles and forgets no trial.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from stoker.platform.data.failures import DownloadFailed
from stoker.platform.jobs.context import JobContext, say_once
from stoker.platform.jobs.store import Store, UnknownJob
from stoker.platform.jobs.submission import create_job
from stoker.platform.jobs.supervisor import JobSupervisor
from stoker.platform.model.faults import ApiFault
from stoker.platform.model.request import parse_request
from stoker.platform.tuning.describe import make_arn
from stoker.platform.tuning.request import TuningRequest, parse_tuning_request
from stoker.platform.tuning.state import Status, TrialRecord, TuningRecord
from stoker.platform.tuning.store import TuningStore
from stoker.platform.tuning.trial_request import make_job_name, make_trial_request
from stoker.platform.tuning.trials import TrialReader, TrialView, list_objectives, make_study
from stoker.tuning.completion import CompletionReason, find_completion
from stoker.tuning.early_stopping import should_stop
from stoker.tuning.hyperband import Verdict, choose_promotion, decide
from stoker.tuning.search import suggest
from stoker.tuning.study import TrialState

_LOOK_SECONDS = 0.5
_MOST_FAILURES = 5
"""Trials without any success after which the service gives up."""

_NO_SUCCESS = "no trial succeeded"

_log = logging.getLogger(__name__)


class TuningWorker(threading.Thread):
    """Carries one tuning job to its end."""

    def __init__(
        self,
        name: str,
        *,
        tuning_store: TuningStore,
        context: JobContext,
        store: Store,
        supervisor: JobSupervisor,
        closing: threading.Event,
    ) -> None:
        super().__init__(name=f"tuning-{name}", daemon=True)
        self._tuning_job = name
        self._tuning_store = tuning_store
        self._context = context
        self._store = store
        self._supervisor = supervisor
        self._closing = closing
        self._reader = TrialReader(store, context.series)
        self.wake = threading.Event()

    def run(self) -> None:
        """Look, act, wait; an error of this machine is tried again."""
        said = ""
        while not self._closing.is_set():
            try:
                if self.act():
                    return
            except Exception as error:  # a full disk, most likely: it must not stay InProgress
                if str(error) != said:
                    said = str(error)
                    _log.warning("%s: %s", self.name, error, exc_info=not _is_known(error))
            self.wake.wait(_LOOK_SECONDS)
            self.wake.clear()

    def act(self) -> bool:
        """One look at all trials, and what follows from it; True if the tuning job is over."""
        record = self._tuning_store.find(self._tuning_job)
        if record is None or record.is_over:
            return True
        request = parse_tuning_request(record.request)
        self._create_missing(record, request)
        record = self._tuning_store.find(self._tuning_job) or record
        views = self._reader.read(record, request)
        self._say_notes(views)
        self._record_ends(views)
        reason = record.finishing or self._find_end(record, request, views)
        if reason and not record.finishing:
            record = self._change(lambda r: replace(r, finishing=reason))
        if record.stop_asked or reason:
            return self._finish(record, views)
        self._decide(record, request, views)
        return self._fill(record, request, views)

    # ---- the end

    def _find_end(
        self, record: TuningRecord, request: TuningRequest, views: Sequence[TrialView]
    ) -> str:
        """Why no further trial is to start; empty if there is no reason."""
        objectives = list_objectives(request, views)
        limit = request.max_runtime_seconds
        if limit is not None and time.time() - record.created >= limit:
            return "MaxRuntimeInSeconds was reached"
        if len(objectives) >= _MOST_FAILURES and all(each is None for each in objectives):
            return _NO_SUCCESS
        goal, space = request.definitions[0].goal, request.definitions[0].space
        found = find_completion(
            request.criteria, goal, objectives, parameters=len(space.parameters)
        )
        if found is CompletionReason.CONVERGED and record.converged is None:
            self._change(lambda r: replace(r, converged=time.time()))
        return found.value if found else ""

    def _finish(self, record: TuningRecord, views: Sequence[TrialView]) -> bool:
        """Stop what runs; True when all of it has ended."""
        running = [view for view in views if not view.is_over]
        for view in running:
            if view.job is not None and not view.job.stop_asked:
                self._supervisor.stop(view.job.name)
        if running:
            return False
        succeeded = any(view.trial.objective is not None for view in views)
        if record.stop_asked:
            self._end("Stopped", "")
        elif views and (record.finishing == _NO_SUCCESS or not succeeded):
            self._end("Failed", _describe_failures(views))
        else:
            self._end("Completed", "")
        return True

    def _end(self, status: Status, reason: str) -> None:
        now = time.time()
        self._change(lambda r: replace(r, status=status, failure_reason=reason[:1024], ended=now))
        _log.info("%s: %s", self.name, status)

    # ---- trials that run

    def _decide(
        self, record: TuningRecord, request: TuningRequest, views: Sequence[TrialView]
    ) -> None:
        for view in views:
            if view.job is None or view.trial.state is not TrialState.RUNNING:
                continue
            if view.job.stop_asked or view.job.pause_asked or view.job.stage != "training":
                continue
            same = [v for v in views if v.record.definition == view.record.definition]
            if request.hyperband is not None:
                self._decide_by_rung(request, view, same)
            elif request.early_stopping:
                self._stop_early(request, view, same)

    def _stop_early(
        self, request: TuningRequest, view: TrialView, same: Sequence[TrialView]
    ) -> None:
        goal = request.definitions[view.record.definition].goal
        earlier = [
            other.trial.curve
            for other in same
            if other.record.number < view.record.number
            and other.trial.state is not TrialState.FAILED
        ]
        if should_stop(goal, view.trial.curve, earlier):
            self._stop_trial(view, "its objective is worse than the median of earlier trials")

    def _decide_by_rung(
        self, request: TuningRequest, view: TrialView, same: Sequence[TrialView]
    ) -> None:
        definition = request.definitions[view.record.definition]
        if request.hyperband is None or len(view.trial.curve) <= view.record.decided:
            return
        verdict = decide(
            request.hyperband,
            definition.goal,
            view.trial,
            [other.trial for other in same],
            can_resume=definition.can_resume,
            decided=view.record.decided,
        )
        # Recorded first: a rung that is decided on twice could pause a trial that was promoted.
        self._change_trial(view.record.number, decided=len(view.trial.curve))
        epochs = len(view.trial.curve)
        if verdict is Verdict.COMPLETE:
            # A script that trains so many epochs is about to save its model: it ends by itself.
            if epochs > request.hyperband.max_resource:
                self._stop_trial(view, f"it has used the resource of a trial, {epochs} epochs")
        elif verdict is Verdict.PAUSE:
            note = f"paused after {epochs} epochs: others are better; it may be resumed"
            self._change_trial(view.record.number, note=note)
            self._supervisor.pause(view.record.job)
        elif verdict is Verdict.STOP:
            self._stop_trial(
                view,
                f"others are better after {epochs} epochs; it cannot be resumed, because the "
                "definition has no CheckpointConfig (checkpoint_s3_uri)",
            )

    def _stop_trial(self, view: TrialView, why: str) -> None:
        self._change_trial(view.record.number, note=f"stopped: {why}")
        self._supervisor.stop(view.record.job)

    def _say_notes(self, views: Sequence[TrialView]) -> None:
        """Put what was decided on trials into their logs."""
        for view in views:
            is_paused = view.trial.state is TrialState.PAUSED
            if view.record.note and (view.is_over or is_paused):
                self._say(view, view.record.note)
                self._change_trial(view.record.number, note="")

    def _say(self, view: TrialView, text: str) -> None:
        if view.job is not None:
            request = parse_request(view.job.request)
            say_once(self._context.streams, request, f"tuning job {self._tuning_job}: {text}")

    # ---- trials that start

    def _fill(
        self, record: TuningRecord, request: TuningRequest, views: Sequence[TrialView]
    ) -> bool:
        """Use the free places: promote paused trials first, then start new ones."""
        paused = [view for view in views if view.trial.state is TrialState.PAUSED]
        active = sum(not view.is_over for view in views) - len(paused)
        most = request.criteria.max_trials
        may_start = most is None or len(record.trials) < most
        while active < request.parallel:
            is_last = active == 0 and not may_start
            if self._promote(request, views, is_last=is_last):
                return False  # the next look sees it run
            if not may_start:
                break
            record, started = self._start_next(record, request)
            if not started:  # every combination was tried
                may_start = False
                continue
            active += 1
            may_start = most is None or len(record.trials) < most
        if active or may_start:
            return False
        reason = "every trial has ended"
        self._change(lambda r: replace(r, finishing=reason))
        return False

    def _promote(
        self, request: TuningRequest, views: Sequence[TrialView], *, is_last: bool
    ) -> bool:
        if request.hyperband is None:
            return False
        for index, definition in enumerate(request.definitions):
            same = [view for view in views if view.record.definition == index]
            number = choose_promotion(
                request.hyperband,
                definition.goal,
                [view.trial for view in same],
                is_last_call=is_last,
            )
            view = next((view for view in same if view.record.number == number), None)
            if view is None:
                continue
            if not self._has_checkpoint(view):
                self._stop_trial(view, "it left no checkpoint, so it cannot be resumed")
            else:
                self._say(view, f"resumed after {len(view.trial.curve)} epochs")
                self._supervisor.resume(view.record.job)
            return True
        return False

    def _has_checkpoint(self, view: TrialView) -> bool:
        if view.job is None:
            return False
        checkpoint = parse_request(view.job.request).checkpoint
        try:
            return checkpoint is not None and any(self._context.storage.list(checkpoint.uri))
        except DownloadFailed:
            return False

    def _start_next(
        self, record: TuningRecord, request: TuningRequest
    ) -> tuple[TuningRecord, bool]:
        """Record the next trial and create its training job; False if nothing is left to try."""
        number = len(record.trials) + 1
        views = self._reader.read(record, request)
        for offset in range(len(request.definitions)):
            index = (number - 1 + offset) % len(request.definitions)
            same = [view.trial for view in views if view.record.definition == index]
            # Each definition counts its own trials: a grid, for one, goes through them in order.
            study = make_study(record, request, index)
            parameters = suggest(study, len(same) + 1, same)
            if parameters is not None:
                trial = TrialRecord(
                    number=number,
                    job=make_job_name(record.name, record.created, number),
                    definition=index,
                    parameters=parameters,
                )
                record = self._record_trial(trial)
                self._create_missing(record, request)
                return self._tuning_store.find(record.name) or record, True
        return record, False

    def _record_trial(self, trial: TrialRecord) -> TuningRecord:
        return self._change(lambda r: replace(r, trials=(*r.trials, trial)))

    def _create_missing(self, record: TuningRecord, request: TuningRequest) -> None:
        """Create the training jobs of recorded trials that have none."""
        for trial in record.trials:
            if trial.refusal or trial.is_created:
                continue
            if self._has_job(trial):  # a server was killed before it noted this
                self._change_trial(trial.number, is_created=True)
                continue
            if record.stop_asked or record.finishing:
                self._change_trial(trial.number, refusal="the tuning job ended before it started")
                continue
            definition = request.definitions[trial.definition]
            params = make_trial_request(
                definition.raw, trial.job, definition.metric, trial.parameters, record.tags
            )
            try:
                create_job(
                    params,
                    context=self._context,
                    store=self._store,
                    supervisor=self._supervisor,
                    tuning_job_arn=make_arn(record.name),
                )
                self._change_trial(trial.number, is_created=True)
            except ApiFault as fault:
                if fault.code != "ResourceLimitExceeded":  # else a place becomes free
                    self._change_trial(trial.number, refusal=f"ClientError: {fault.message}")

    def _record_ends(self, views: Sequence[TrialView]) -> None:
        """Keep how trials ended: their training jobs may be deleted."""
        for view in views:
            if view.job is not None and view.is_over and not view.record.status:
                self._change_trial(
                    view.record.number, status=view.job.status, objective=view.trial.objective
                )

    def _has_job(self, trial: TrialRecord) -> bool:
        try:
            self._store.read(trial.job)
        except UnknownJob:
            return False
        return True

    # ---- the record

    def _change(self, function: Callable[[TuningRecord], TuningRecord]) -> TuningRecord:
        now = time.time()
        return self._tuning_store.change(
            self._tuning_job, lambda r: replace(function(r), modified=now)
        )

    def _change_trial(self, number: int, **fields: float | str | None) -> None:
        def change(record: TuningRecord) -> TuningRecord:
            trials = tuple(
                replace(trial, **fields) if trial.number == number else trial  # type: ignore[arg-type]  # dataclasses.replace has no better type
                for trial in record.trials
            )
            return replace(record, trials=trials)

        self._change(change)


def _describe_failures(views: Sequence[TrialView]) -> str:
    failed = [view for view in views if view.failure]
    cause = f" The first, {failed[0].record.job}: {failed[0].failure}" if failed else ""
    return (
        f"No training job succeeded after {len(failed)} attempts. For additional details, please "
        "take a look at the training job failures by listing training jobs for the "
        f"hyperparameter tuning job.{cause}"
    )


def _is_known(error: Exception) -> bool:
    return isinstance(error, OSError | sqlite3.Error)

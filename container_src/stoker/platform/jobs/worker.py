"""One job from the queue to its end, in a thread of its own."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from stoker.errors import HostError
from stoker.machine.failures import EngineSilent
from stoker.platform.data.confined import remove_tree
from stoker.platform.data.failures import TransferCancelled, UploadFailed
from stoker.platform.engines.engine import LayersRefused
from stoker.platform.jobs.attempt import AttemptRun
from stoker.platform.jobs.changes import (
    begin_attempt,
    begin_download,
    begin_training,
    begin_upload,
    change_attempt,
    conclude,
    end,
    interrupt,
    make_fault,
    make_verdict,
    may_retry,
    show,
    show_silence,
    show_transfer,
    stopped,
)
from stoker.platform.jobs.context import JobContext, say_once
from stoker.platform.jobs.control import (
    Breakpoints,
    JobControl,
    ServerClosing,
    Slots,
    next_deadline,
)
from stoker.platform.jobs.hosts import prepare_hosts, show_setting
from stoker.platform.jobs.kept_folders import put_end_markers
from stoker.platform.jobs.log_pump import count_lines
from stoker.platform.jobs.metrics import MetricReader, describe_problems, read_final
from stoker.platform.jobs.profile_page import upload_profile_page
from stoker.platform.jobs.results import read_end_texts, read_exit_message, upload_results
from stoker.platform.jobs.spot import NEVER, SpotSchedule, read_schedule
from stoker.platform.jobs.state import Cause, JobRecord, Metric, Stage
from stoker.platform.jobs.store import UnknownJob
from stoker.platform.jobs.warm_pool_states import release
from stoker.platform.jobs.warm_pools import WarmPools
from stoker.platform.model.processing_request import parse_job_request
from stoker.platform.model.request import TrainingRequest

_DATABASE_RETRY_SECONDS = 1.0
_ENGINE_RETRY_SECONDS = 2.0

_log = logging.getLogger(__name__)


class JobWorker(threading.Thread):
    """Carries one job to its end, from whatever stage the store says it is in."""

    def __init__(
        self,
        control: JobControl,
        context: JobContext,
        *,
        slots: Slots,
        pools: WarmPools,
        breakpoints: Breakpoints,
        grace_seconds: float,
        after: threading.Thread | None = None,
    ) -> None:
        """Args: after: that of a job of the same name, whose folders it may still remove."""
        super().__init__(name=f"job-{control.name}", daemon=True)
        self._control = control
        self._after = after
        self._request: TrainingRequest | None = None
        self._context = context
        self._slots = slots
        self._pools = pools
        self._breakpoints = breakpoints
        self._grace_seconds = grace_seconds
        self._stages: Mapping[Stage, Callable[[JobRecord, TrainingRequest], None]] = {
            "queued": self._queue,
            "starting": self._start_attempt,
            "downloading": self._download,
            "training": self._train,
            "interrupted": self._pause,
            "uploading": self._upload,
            "cleaning": self._clean,
        }

    def run(self) -> None:
        """Act on one stage after the other; remove what is left once the job has ended."""
        if self._after is not None:
            self._after.join()
        try:
            while not self._act():
                self._control.require_server()
        except ServerClosing:
            _log.info("%s: left as it is; the next server continues it", self._control.name)
            return
        self._slots.leave(self._control.name)
        self._pools.keep(self._control.name)
        self._breakpoints.at(self._control.name, "ended")
        with suppress(ServerClosing):
            self._clear()

    def _act(self) -> bool:
        """Act on the recorded stage; True if the job has ended."""
        try:
            record = self._control.read()
            if record.stage == "ended":
                _log.info("%s: %s", record.name, record.secondary)
                return True
            self._breakpoints.at(record.name, record.stage)
            # Read again: at a breakpoint time may have passed.
            self._act_on(self._control.read())
        except UnknownJob:  # it had ended, and was deleted at once
            return True
        except sqlite3.Error as error:
            # A full disk, most likely. What was done is done again once there is space.
            _log.error("%s: the store does not take it: %s", self._control.name, error)
            self._make_room()
            self._control.wait(time.time() + _DATABASE_RETRY_SECONDS)
        return False

    def _make_room(self) -> None:
        """Remove a job's folders early: they may be what fills the disk, and all is uploaded."""
        with suppress(sqlite3.Error, UnknownJob):
            if self._control.read().stage == "cleaning":
                self._clear()

    def _act_on(self, record: JobRecord) -> None:
        """One stage; a failure is recorded, too."""
        try:
            self._request = parse_job_request(record.request)
            self._stages[record.stage](record, self._request)
        except (ServerClosing, sqlite3.Error):
            raise
        except Exception as error:  # whatever it is, the job must not stay InProgress
            self._control.require_server()  # else it may be an error of a server that ends
            if isinstance(error, EngineSilent) and self._wait_for_engine(error):
                return
            self._fail(error)

    def _wait_for_engine(self, silence: EngineSilent) -> bool:
        """A job whose hosts do not run yet waits: its stage is acted on again."""
        record = self._control.read()
        has_begun = record.stage == "training" and record.attempt.launched
        if record.stage not in ("starting", "downloading", "training") or has_begun:
            return False
        if self._control.told_to_end(record, parse_job_request(record.request)):
            return False
        self._control.change(lambda r, now: show_silence(r, silence, now))
        self._control.wait(time.time() + _ENGINE_RETRY_SECONDS)
        return True

    # ---- the stages, in the order of a job's life

    def _queue(self, record: JobRecord, request: TrainingRequest) -> None:
        if self._end_if_told(record, request):
            return
        if self._slots.ask(record.name, self._control.wake):
            self._control.change(begin_attempt)
            return
        message = f"Waiting for one of {self._slots.count} slots of this machine"
        if record.secondary != "Pending":
            record = self._control.change(lambda r, now: show(r, "Pending", message, now))
        deadline = next_deadline(record, request)
        self._control.wait(deadline.at if deadline else None)

    def _start_attempt(self, record: JobRecord, request: TrainingRequest) -> None:
        if self._end_if_told(record, request):
            return
        context = self._context
        clear_attempt(context, request)
        context.engine.require_image(request.image)
        self._pools.claim(record, request)
        for host in request.hosts:
            context.streams.create(record.name, host, int(record.created))
        explained = context.engine.explain_image(request.image)
        say_once(context.streams, request, *record.notes, *explained)
        self._control.change(begin_download)

    def _download(self, record: JobRecord, request: TrainingRequest) -> None:
        if self._end_if_told(record, request):
            return
        try:
            with self._control.cancelling_at(next_deadline(record, request)):
                mounts = prepare_hosts(
                    self._context,
                    request,
                    self._control.cancelled,
                    show=self._show_transfer,
                    pool=record.pool,
                )
        except TransferCancelled:
            return  # the same stage again, which sees why
        lines = {
            host: count_lines(self._context.streams, record.name, host) for host in request.hosts
        }
        note = show_setting(request, self._context)
        self._control.change(
            lambda r, now: begin_training(r, now, lines_before=lines, mounts=mounts, note=note)
        )

    def _train(self, record: JobRecord, request: TrainingRequest) -> None:
        # Once hosts run, AttemptRun tells them to end and records why.
        if not record.attempt.launched and self._end_if_told(record, request):
            return
        run = AttemptRun(
            context=self._context,
            control=self._control,
            request=request,
            schedule=self._schedule(request),
            grace_seconds=self._grace_seconds,
            breakpoints=self._breakpoints,
        )
        try:
            exits = run.run()
        except LayersRefused:  # once: from now on the engine says so beforehand
            clear_attempt(self._context, request)
            self._control.change(begin_download)
            return
        except UploadFailed as failure:  # of a kept folder; the model is uploaded nevertheless
            verdict = make_fault(failure)
            self._control.change(
                lambda r, now: begin_upload(change_attempt(r, now, ended=now), verdict, now)
            )
            return
        texts = read_end_texts(self._context, request)

        def conclude_attempt(record: JobRecord, now: float) -> JobRecord:
            over = change_attempt(record, now, ended=now)
            if record.attempt.cause == "interrupted" and not record.stop_asked:
                return interrupt(over, now)
            told = replace(over, exit_message=read_exit_message(self._context.root, request))
            return begin_upload(told, make_verdict(record, exits, texts), now)

        self._control.change(conclude_attempt)

    def _pause(self, record: JobRecord, request: TrainingRequest) -> None:
        if self._end_if_told(record, request):
            return
        if record.pause_asked:
            self._slots.leave(record.name)  # others train meanwhile
            deadline = next_deadline(record, request)
            self._control.wait(deadline.at if deadline else None)
            return
        restart = self._schedule(request).restart_at(record)
        if restart <= time.time():
            self._control.change(begin_attempt)
            return
        deadline = next_deadline(record, request)
        self._control.wait(min(restart, deadline.at) if deadline else restart)

    def _upload(self, record: JobRecord, request: TrainingRequest) -> None:
        put_end_markers(request, self._context.storage)
        model_uri = upload_results(self._context, record, request, show=self._show_transfer)
        upload_profile_page(self._context, record, request)
        self._breakpoints.at(self._control.name, "uploaded")
        self._control.change(
            lambda r, now: replace(
                r,
                stage="cleaning",
                model_uri=model_uri,
                training_ended=r.training_ended or now,
                modified=now,
            )
        )

    def _clean(self, record: JobRecord, request: TrainingRequest) -> None:
        metrics = note_metrics(self._context, record, request)
        self._breakpoints.at(self._control.name, "measured")
        self._control.change(lambda r, now: release(end(replace(r, metrics=metrics), now), now))

    def _show_transfer(self, line: str) -> None:
        with suppress(sqlite3.Error):  # a full disk: what matters is recorded elsewhere
            self._control.change(lambda r, now: show_transfer(r, line, now))

    # ---- ways out

    def _end_if_told(self, record: JobRecord, request: TrainingRequest) -> bool:
        cause: Cause = self._control.told_to_end(record, request)
        if not cause:
            return False
        trained = record.training_started is not None

        def conclude_early(record: JobRecord, now: float) -> JobRecord:
            # What an interrupted attempt has left is uploaded, as after any other stop; once the
            # next one has begun there is nothing left of it.
            if trained and record.stage == "interrupted":
                return begin_upload(record, stopped(cause), now)
            ended = replace(record, training_ended=now if trained else None)
            return conclude(ended, stopped(cause), "cleaning", now)

        self._control.change(conclude_early)
        return True

    def _fail(self, error: Exception) -> None:
        """Record what went wrong; an internal error is retried if the request allows it."""
        verdict = make_fault(error)
        _log.warning("%s: %s", self._control.name, verdict.failure_reason, exc_info=error)

        def record_failure(record: JobRecord, now: float) -> JobRecord:
            if record.stage == "cleaning":  # the job itself is over; what is left is swept later
                return release(end(record, now), now)
            if record.attempts and record.attempt.began and record.attempt.ended is None:
                record = change_attempt(record, now, ended=now)
            if may_retry(record, error):
                return begin_attempt(replace(record, retries=record.retries + 1), now)
            if record.verdict is not None and record.verdict.status == "Failed":
                return conclude(record, record.verdict, "cleaning", now)  # the first reason counts
            return conclude(record, verdict, "cleaning", now)

        self._control.change(record_failure)

    def _clear(self) -> None:
        """Remove the runs and folders of the job, after its end is visible.

        What a killed server leaves of them is removed by the next one.
        """
        while self._request is not None:
            try:
                clear_job(self._context, self._request)
            except EngineSilent:  # otherwise a container might run for days
                self._control.wait(time.time() + _ENGINE_RETRY_SECONDS)
                continue
            except (HostError, OSError) as error:
                _log.warning("%s: something of it is left: %s", self._control.name, error)
            return

    def _schedule(self, request: TrainingRequest) -> SpotSchedule:
        if not request.spot:
            return NEVER
        return read_schedule(
            request.environment, self._context.environment, instances=len(request.hosts)
        )


def note_metrics(
    context: JobContext, record: JobRecord, request: TrainingRequest
) -> tuple[Metric, ...]:
    """The final metrics; what is wrong with those that have no value is said in the log, once."""
    job, definitions = request.name, request.metric_definitions
    reader = MetricReader(context.streams, context.series, job=job, definitions=definitions)
    try:
        reader.read_new()
    finally:
        reader.close()
    # The last lines of a failed job's log are about its failure, which explains the rest.
    is_failed = record.verdict is not None and record.verdict.status == "Failed"
    if record.training_started is not None and not is_failed:
        problems = describe_problems(context.streams, context.series, job, definitions)
        say_once(context.streams, request, *problems)
    return read_final(context.series, job, definitions)


def remove_runs(context: JobContext, job: str) -> None:
    """Remove the runs of all attempts of a job."""
    for running in context.engine.list_runs():
        if running.job == job:
            context.engine.remove(running.name)


def clear_attempt(context: JobContext, request: TrainingRequest) -> None:
    """Remove the runs and folders of earlier attempts: the next one begins on a fresh disk."""
    remove_runs(context, request.name)
    job_dir = context.root.job_dir(request.name)
    try:
        _remove_folder(job_dir)
    except PermissionError:  # a container wrote as root, and the server died before this
        context.engine.take_ownership(job_dir, request.image)
        _remove_folder(job_dir)
    job_dir.mkdir(parents=True)


def clear_job(context: JobContext, request: TrainingRequest) -> None:
    """Remove everything but the log and what was uploaded."""
    clear_attempt(context, request)
    if len(request.hosts) > 1:  # a single one has no network of its own
        context.engine.remove_network(request.name)
    context.root.job_dir(request.name).rmdir()


def _remove_folder(folder: Path) -> None:
    with suppress(FileNotFoundError):
        remove_tree(folder)

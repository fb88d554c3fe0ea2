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

from stoker.platform.data.artifacts import pack_and_upload
from stoker.platform.data.confined import read_start, remove_tree
from stoker.platform.data.failures import TransferCancelled, UploadFailed
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
    is_our_fault,
    make_fault,
    make_verdict,
    show,
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
from stoker.platform.jobs.hosts import prepare_hosts, put_end_markers
from stoker.platform.jobs.log_pump import count_lines
from stoker.platform.jobs.metrics import scan_metrics
from stoker.platform.jobs.spot import NEVER, SpotSchedule, read_schedule
from stoker.platform.jobs.state import Cause, JobRecord, Metric, Stage
from stoker.platform.model.request import TrainingRequest, parse_request
from stoker.platform.model.root import Root

_DATABASE_RETRY_SECONDS = 1.0
_FAILURE_BYTES = 4096  # FailureReason holds 1024 characters

_log = logging.getLogger(__name__)


class JobWorker(threading.Thread):
    """Carries one job to its end, from whatever stage the store says it is in."""

    def __init__(
        self,
        control: JobControl,
        context: JobContext,
        *,
        slots: Slots,
        breakpoints: Breakpoints,
        grace_seconds: float,
    ) -> None:
        super().__init__(name=f"job-{control.name}", daemon=True)
        self._control = control
        self._context = context
        self._slots = slots
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
        """Act on one stage after the other."""
        try:
            while not self._act():
                self._control.require_server()
        except ServerClosing:
            _log.info("%s: left as it is; the next server goes on with it", self._control.name)
            return
        self._slots.leave(self._control.name)

    def _act(self) -> bool:
        """Act on the recorded stage; True if the job has ended."""
        try:
            record = self._control.read()
            if record.stage == "ended":
                _log.info("%s: %s", record.name, record.secondary)
                return True
            self._breakpoints.at(record.name, record.stage)
            self._act_on(self._control.read())
        except sqlite3.Error as error:
            # A full disk, most likely. What was done is done again once there is space.
            _log.error("%s: the store does not take it: %s", self._control.name, error)
            self._control.wait(time.time() + _DATABASE_RETRY_SECONDS)
        return False

    def _act_on(self, record: JobRecord) -> None:
        """One stage; a failure is recorded, too."""
        try:
            self._stages[record.stage](record, parse_request(record.request))
        except (ServerClosing, sqlite3.Error):
            raise
        except Exception as error:  # whatever it is, the job must not stay InProgress
            self._control.require_server()  # else it may be an error of a server that ends
            self._fail(error)

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
        for host in request.hosts:
            context.streams.create(record.name, host, int(record.created))
        self._control.change(begin_download)

    def _download(self, record: JobRecord, request: TrainingRequest) -> None:
        if self._end_if_told(record, request):
            return
        try:
            with self._control.cancelling_at(next_deadline(record, request)):
                mounts = prepare_hosts(self._context, request, self._control.cancelled)
        except TransferCancelled:
            return  # the same stage again, which sees why
        lines = {
            host: count_lines(self._context.streams, record.name, host) for host in request.hosts
        }
        self._control.change(
            lambda r, now: begin_training(r, now, lines_before=lines, mounts=mounts)
        )

    def _train(self, record: JobRecord, request: TrainingRequest) -> None:
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
        except UploadFailed as failure:  # of a kept folder; the model is uploaded nevertheless
            verdict = make_fault(failure)
            self._control.change(
                lambda r, now: begin_upload(change_attempt(r, now, ended=now), verdict, now)
            )
            return
        texts = {host: self._read_failure(record.name, host) for host in request.hosts}

        def conclude_attempt(record: JobRecord, now: float) -> JobRecord:
            over = change_attempt(record, now, ended=now)
            if record.attempt.cause == "interrupted" and not record.stop_asked:
                return interrupt(over, now)
            return begin_upload(over, make_verdict(record, exits, texts), now)

        self._control.change(conclude_attempt)

    def _read_failure(self, job: str, host: str) -> str:
        # The job may have put a link or a pipe there: neither is followed.
        folder = self._context.root.host_dir(job, host)
        start = read_start(folder, ("output", "failure"), _FAILURE_BYTES)
        return start.decode("utf-8", "replace").strip()

    def _pause(self, record: JobRecord, request: TrainingRequest) -> None:
        if self._end_if_told(record, request):
            return
        restart = self._schedule(request).restart_at(record)
        if restart <= time.time():
            self._control.change(begin_attempt)
            return
        deadline = next_deadline(record, request)
        self._control.wait(min(restart, deadline.at) if deadline else restart)

    def _upload(self, record: JobRecord, request: TrainingRequest) -> None:
        root = self._context.root
        work = root.job_dir(record.name) / "work"
        folders = {host: root.host_dir(record.name, host) for host in request.hosts}
        put_end_markers(request, self._context.storage)
        try:
            artifacts = pack_and_upload(request, folders, self._context.storage, work)
        except UploadFailed as failure:
            kept = keep_results(root, request)
            raise UploadFailed(f"{failure.message} (kept in {kept})", fix=failure.fix) from failure
        left_out = (f"left out of the artifacts: {each}" for each in artifacts.skipped)
        say_once(self._context.streams, request, *left_out)
        self._breakpoints.at(self._control.name, "uploaded")
        self._control.change(
            lambda r, now: replace(
                r,
                stage="cleaning",
                model_uri=artifacts.model_uri or "",
                training_ended=r.training_ended or now,
                modified=now,
            )
        )

    def _clean(self, record: JobRecord, request: TrainingRequest) -> None:
        metrics = note_metrics(self._context, request)
        self._control.change(lambda r, now: replace(r, metrics=metrics, modified=now))
        clear_job(self._context, request)
        self._breakpoints.at(self._control.name, "cleaned")
        self._control.change(end)

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
        """Record what went wrong; a fault of ours is tried again if the request allows it."""
        verdict = make_fault(error)
        _log.warning("%s: %s", self._control.name, verdict.failure_reason, exc_info=error)

        def record_failure(record: JobRecord, now: float) -> JobRecord:
            if record.stage == "cleaning":  # the job itself is over; what is left is swept later
                return end(record, now)
            if record.attempts and record.attempt.began and record.attempt.ended is None:
                record = change_attempt(record, now, ended=now)
            allowed = record.request.get("RetryStrategy", {}).get("MaximumRetryAttempts", 0)
            retried = record.stage in ("starting", "downloading", "training")
            if retried and is_our_fault(verdict) and record.retries < allowed:
                return begin_attempt(replace(record, retries=record.retries + 1), now)
            if record.verdict is not None and record.verdict.status == "Failed":
                return conclude(record, record.verdict, "cleaning", now)  # the first reason counts
            return conclude(record, verdict, "cleaning", now)

        self._control.change(record_failure)

    def _schedule(self, request: TrainingRequest) -> SpotSchedule:
        if not request.spot:
            return NEVER
        return read_schedule(
            request.environment, self._context.environment, instances=len(request.hosts)
        )


_RESULTS = ("model", "output")


def note_metrics(context: JobContext, request: TrainingRequest) -> tuple[Metric, ...]:
    """The final metrics, from the stored log; what had to be given up is said there, once."""
    logs = [stream.file for stream in context.streams.streams(request.name)]
    scan = scan_metrics(logs, request.metric_definitions)
    say_once(
        context.streams,
        request,
        *(
            f"metric {name!r} is given up: its regular expression takes too long; "
            "fix: avoid nested repetition such as (a+)+"
            for name in scan.given_up
        ),
    )
    return scan.metrics


def clear_attempt(context: JobContext, request: TrainingRequest) -> None:
    """Remove the runs and folders of earlier attempts: the next one begins on a fresh disk."""
    for running in context.engine.list_runs():
        if running.job == request.name:
            context.engine.remove(running.name)
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
    context.engine.remove_network(request.name)
    context.root.job_dir(request.name).rmdir()


def keep_results(root: Root, request: TrainingRequest) -> Path:
    """Put models and output aside that could not be uploaded; returns where.

    Within one file system, so it works on a full disk, too.
    """
    kept = root.kept_dir(request.name)
    for host in request.hosts:
        (kept / host).mkdir(parents=True, exist_ok=True)
        for name in _RESULTS:
            with suppress(FileNotFoundError):  # done before, by a server that was killed
                (root.host_dir(request.name, host) / name).rename(kept / host / name)
    return kept


def _remove_folder(folder: Path) -> None:
    with suppress(FileNotFoundError):
        remove_tree(folder)

"""One run of all hosts: started, watched, told to end, drained."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from stoker.bus.run_file import FILE_NAME, FOLDER, MOST_BYTES
from stoker.errors import HostError
from stoker.machine.failures import EngineLost, EngineSilent
from stoker.platform.data.channels import find_changed_channels
from stoker.platform.data.confined import make_readable, read_start
from stoker.platform.data.failures import UploadFailed
from stoker.platform.data.rule_output import upload_findings
from stoker.platform.engines.engine import Standby
from stoker.platform.jobs.changes import change_attempt, show, show_silence
from stoker.platform.jobs.context import JobContext, say_once
from stoker.platform.jobs.control import Breakpoints, JobControl, ServerClosing, next_deadline
from stoker.platform.jobs.host_watch import HostWatch
from stoker.platform.jobs.hosts import (
    PipeChannels,
    make_launch,
    run_name,
)
from stoker.platform.jobs.kept_folders import FolderSyncs
from stoker.platform.jobs.log_pump import LogPump
from stoker.platform.jobs.metric_files import MetricFiles
from stoker.platform.jobs.metrics import MetricReader, MetricWatch
from stoker.platform.jobs.rule_watch import LOOK_SECONDS, RuleWatch
from stoker.platform.jobs.spot import SpotSchedule
from stoker.platform.jobs.state import Cause, HostExit, JobRecord
from stoker.platform.jobs.warm_pools import CACHE_DIR, find_standby
from stoker.platform.model.mount import Mount
from stoker.platform.model.processing_request import ProcessingRequest, parse_job_request
from stoker.platform.model.request import TrainingRequest

_UPLOADED = ("checkpoints", "model", "output", "processing")
"""Folders of /opt/ml that are read once the job is over."""

_RUN_FILE = ("output", "data", FOLDER, FILE_NAME)
_FLUSH_SECONDS = 120.0
_DRAIN_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptRun:
    """The newest attempt of a job, to be run to its end."""

    context: JobContext
    control: JobControl
    request: TrainingRequest
    schedule: SpotSchedule
    grace_seconds: float
    breakpoints: Breakpoints

    def run(self) -> dict[str, HostExit]:
        """Start or adopt all hosts and follow them to their end; returns how each ended.

        Raises:
            LayersRefused: the input has to be copied after all.
            EngineFailed: a host cannot start.
            EngineLost: what ran is gone.
            ServerClosing: the server ends; the hosts continue.
        """
        record = self.control.read()
        with ExitStack() as ending:
            pipe_channels = PipeChannels(self.request, self.context, self.control.wake)
            ending.callback(pipe_channels.stop)
            # Before the hosts: a script may open its first FIFO at once.
            pipe_channels.start(lambda: self._hosts_there(record))
            self._launch(record)
            syncs = FolderSyncs(self.context.root, self.context.storage, ending)
            syncs.start(self.request)
            pumps = self._start_pumps(record)
            files = MetricFiles(self.context, self.request, record.attempt.number)
            ending.callback(self._start_metrics(files).stop)
            rules = RuleWatch(self._leader_dir, self.control)
            try:
                exits = self._follow(pipe_channels, rules, syncs)
                self.breakpoints.at(self.request.name, "drain")
                self._drain(pumps)
            except ServerClosing:
                raise
            except Exception:
                self._abandon(record, pumps)
                raise
            # What the container's root wrote must be ours before it can be read and uploaded.
            folder = self.context.root.job_dir(self.request.name)
            self.context.engine.take_ownership(folder, self.request.image)
            self._make_readable()
            rules.look()
            files.read_new()
            self._keep_run_file()
            self._name_changed_channels()
            self._flush(syncs, exits)
            self._upload_findings(record)
            pipe_channels.require_whole()
        return exits

    @property
    def _leader_dir(self) -> Path:
        return self.context.root.host_dir(self.request.name, self.request.hosts[0])

    def _make_readable(self) -> None:
        for host in self.request.hosts:
            for part in _UPLOADED:
                make_readable(self.context.root.host_dir(self.request.name, host), (part,))

    def _name_changed_channels(self) -> None:
        """Once for all hosts: they have read the same folders."""
        changed = find_changed_channels(self.request, self._leader_dir)
        say_once(self.context.streams, self.request, *changed)

    def _launch(self, record: JobRecord) -> None:
        engine = self.context.engine
        network = engine.make_network(
            self.request.name, self.request.hosts, isolated=self.request.isolated
        )
        if record.attempt.launched:
            self._require_all_there(record)
            return
        mounts = {host: _mounts(record, host) for host in self.request.hosts}
        standby = self._find_standby(record, mounts)
        for host in self.request.hosts:
            engine.start(
                make_launch(
                    self.request,
                    host,
                    attempt=record.attempt.number,
                    context=self.context,
                    network=network,
                    mounts=mounts[host],
                    pool=record.pool,
                    standby=standby,
                )
            )
            self.breakpoints.at(self.request.name, "launching")
        # Last: a server that dies before this starts them again, and those that run are taken as
        # they are.
        self.control.change(lambda r, now: change_attempt(r, now, launched=True))

    def _find_standby(
        self, record: JobRecord, mounts: Mapping[str, tuple[Mount, ...]]
    ) -> Standby | None:
        """The container that waits in the job's pool, if all the job needs is in it."""
        found = find_standby(self.context.root, record)
        more = [each for host in mounts.values() for each in host if each.target != CACHE_DIR]
        if found is None or (len(mounts) == 1 and not more):
            return found
        self.context.engine.remove(found.name)  # mounts cannot be added to it
        return None

    def _require_all_there(self, record: JobRecord) -> None:
        gone = sorted(set(self.request.hosts) - self._hosts_there(record))
        if gone:
            raise EngineLost(
                f"the run of {', '.join(gone)} vanished while no server was there to watch it",
                fix="submit the job again; with RetryStrategy this happens by itself",
            )

    def _hosts_there(self, record: JobRecord) -> set[str]:
        """The hosts of this attempt that an earlier server started."""
        return {
            running.host
            for running in self.context.engine.list_runs()
            if (running.job, running.attempt) == (self.request.name, record.attempt.number)
        }

    def _start_pumps(self, record: JobRecord) -> list[LogPump]:
        pumps = [
            LogPump(
                self.context.engine,
                self.context.streams,
                name=self._name(record, host),
                job=self.request.name,
                host=host,
                before=record.attempt.lines_before.get(host, 0),
            )
            for host in self.request.hosts
        ]
        for pump in pumps:
            pump.start()
        return pumps

    def _keep_run_file(self) -> None:
        """For the run of the job: its folders are removed before the run is complete."""
        if content := read_start(self._leader_dir, _RUN_FILE, MOST_BYTES):
            self.context.root.run_file(self.request.name).write_bytes(content)

    def _start_metrics(self, files: MetricFiles) -> MetricWatch:
        reader = MetricReader(
            self.context.streams,
            self.context.series,
            job=self.request.name,
            definitions=self.request.metric_definitions,
        )
        watch = MetricWatch(reader, files, self.request.name)
        watch.start()
        return watch

    def _follow(
        self, pipe_channels: PipeChannels, rules: RuleWatch, syncs: FolderSyncs
    ) -> dict[str, HostExit]:
        record = self.control.read()
        request = record.request
        names = {host: self._name(record, host) for host in self.request.hosts}
        watch = HostWatch(self.context.engine, self.control, names)
        while not watch.over():
            self.control.require_server()
            watch.raise_losses()
            # A pipe that failed would leave the script waiting for its next FIFO.
            pipe_channels.require_whole()
            rules.look()
            record = self._show_silence(watch)
            if record.request != request:  # UpdateTrainingJob: a profile, or more rules
                request = record.request
                syncs.start(parse_job_request(request))
            cause = record.attempt.cause or self._cause(record, watch)
            if watch.silence is not None:
                self._require_patience(record, cause, watch.silence)
            else:
                if cause and record.attempt.signalled is None:
                    record = self._tell(record, cause, watch, rules)
                self._kill_late(record, watch)
            self.control.wait(self._next_moment(record, watch))
        return watch.exits

    def _show_silence(self, watch: HostWatch) -> JobRecord:
        """The job, whose status says whether its engine answers; what runs may continue."""
        record = self.control.read()
        if watch.silence is not None:
            silence = watch.silence
            return self.control.change(lambda r, now: show_silence(r, silence, now))
        if record.secondary == "Pending":
            message = "The engine answers again. Training in progress."
            return self.control.change(lambda r, now: show(r, "Training", message, now))
        return record

    def _require_patience(self, record: JobRecord, cause: Cause, silence: EngineSilent) -> None:
        """Raises the silence when the job must end: no host can be signalled."""
        is_late = self._is_late(record) or record.attempt.signalled is None
        if cause in ("asked", "max_runtime", "max_wait") and is_late:
            raise silence

    def _cause(self, record: JobRecord, watch: HostWatch) -> Cause:
        """Why the hosts must end now; empty if they may continue."""
        told = self.control.told_to_end(record, self.request)
        if told:
            return told
        if any(exit_.code != 0 for exit_ in watch.exits.values()):
            return "host_failed"
        if record.pause_asked:
            return "interrupted"
        interruption = self.schedule.interruption_at(record)
        return "interrupted" if interruption and interruption <= time.time() else ""

    def _tell(
        self, record: JobRecord, cause: Cause, watch: HostWatch, rules: RuleWatch
    ) -> JobRecord:
        # Recorded, done, recorded: a server that dies in between tells them once more rather
        # than not at all.
        self.control.change(lambda r, now: change_attempt(r, now, cause=cause))
        self.breakpoints.at(self.request.name, f"tell-{cause}")
        unwarned = cause == "interrupted" and not (self.schedule.warning or record.pause_asked)
        # A leader that carries out its rule's stop is stopping; a second SIGTERM would end it.
        stop = rules.read_stop()
        is_stopping = stop is not None and not stop.is_sent_by_platform and not unwarned
        spared = self.request.hosts[:1] if is_stopping else ()
        heeded = watch.signal(signal.SIGKILL if unwarned else signal.SIGTERM, spared=spared)
        if not heeded and isinstance(self.request, ProcessingRequest):
            watch.kill_once()  # a script without a handler: nothing would happen until then
        record = self.control.change(lambda r, now: change_attempt(r, now, signalled=now))
        self.breakpoints.at(self.request.name, "stopping")
        return record

    def _kill_late(self, record: JobRecord, watch: HostWatch) -> None:
        if self._is_late(record):
            watch.kill_once()

    def _is_late(self, record: JobRecord) -> bool:
        signalled = record.attempt.signalled
        return signalled is not None and time.time() >= signalled + self.grace_seconds

    def _next_moment(self, record: JobRecord, watch: HostWatch) -> float | None:
        if watch.killed:
            return None
        signalled = record.attempt.signalled
        deadline = next_deadline(record, self.request)
        limit = deadline.at if deadline else None
        interruption = self.schedule.interruption_at(record)
        told = [limit, interruption] if signalled is None else [signalled + self.grace_seconds]
        # The rules are read until the end: the evaluator finishes while a job stops.
        return min([time.time() + LOOK_SECONDS, *(each for each in told if each is not None)])

    def _drain(self, pumps: list[LogPump]) -> None:
        over = time.monotonic()
        for pump in pumps:
            pump.run_is_over.set()
        for pump in pumps:
            while pump.is_alive():
                self.control.require_server()
                pump.join(0.2)
                if min(pump.idle_seconds(), time.monotonic() - over) > _DRAIN_SECONDS:
                    raise EngineLost(
                        f"the log of {pump.name} did not end with its run",
                        fix="look at the engine: its log reader hangs",
                    )
            if pump.failure is not None:
                raise pump.failure

    def _abandon(self, record: JobRecord, pumps: list[LogPump]) -> None:
        """Remove what still runs, so that no pump adds a line to a later attempt's."""
        for host in self.request.hosts:
            with suppress(HostError):  # an engine that is gone; cleaning tries again
                self.context.engine.remove(self._name(record, host))
        for pump in pumps:
            pump.run_is_over.set()
            pump.join(_DRAIN_SECONDS)

    def _flush(self, syncs: FolderSyncs, exits: dict[str, HostExit]) -> None:
        """Upload what is left of the kept folders; what cannot be is said in the log.

        A job that did all its work fails by it; one that failed or was stopped keeps its reason.
        """
        failures: list[UploadFailed] = []
        syncs.flush(_FLUSH_SECONDS, failures.append)
        say_once(self.context.streams, self.request, *(failure.message for failure in failures))
        worked = all(exit_.code == 0 for exit_ in exits.values())
        if failures and worked and not self.control.read().attempt.cause:
            raise failures[0]

    def _upload_findings(self, record: JobRecord) -> None:
        number = record.attempt.number
        try:
            upload_findings(self.request, self._leader_dir, self.context.storage, attempt=number)
        except UploadFailed as failure:  # they are part of output.tar.gz as well
            say_once(self.context.streams, self.request, failure.message)

    def _name(self, record: JobRecord, host: str) -> str:
        return run_name(self.request.name, host, record.attempt.number)


def _mounts(record: JobRecord, host: str) -> tuple[Mount, ...]:
    return tuple(
        Mount(
            source=Path(source),
            target=target,
            read_only=read_only,
            layers=tuple(map(Path, layers)),
        )
        for source, target, read_only, *layers in record.attempt.mounts.get(host, [])
    )

"""One run of all hosts: started, followed, told to end, drained.

Everything is found again after a kill -9: the runs by their names, the lines by what is stored,
the signal and its grace time by the record. Nothing here removes a run: how it ended can be asked
until the job is cleaned up.
"""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from stoker.errors import HostError
from stoker.host.platform.around.failures import UploadFailed
from stoker.host.platform.around.left_trees import make_readable
from stoker.host.platform.around.rule_output import upload_findings
from stoker.host.platform.around.sync import FolderSync
from stoker.host.platform.engines.engine import EngineLost, Mount
from stoker.host.platform.jobs.changes import change_attempt
from stoker.host.platform.jobs.control import JobControl, ServerClosing
from stoker.host.platform.jobs.deadlines import next_deadline
from stoker.host.platform.jobs.feeds import Feeds
from stoker.host.platform.jobs.folders import list_kept_folders, make_sync
from stoker.host.platform.jobs.holds import Holds
from stoker.host.platform.jobs.host_watch import HostWatch
from stoker.host.platform.jobs.launches import make_launch, run_name
from stoker.host.platform.jobs.log_pump import LogPump
from stoker.host.platform.jobs.notes import say_once
from stoker.host.platform.jobs.rule_watch import LOOK_SECONDS, RuleWatch
from stoker.host.platform.jobs.spot import SpotSchedule
from stoker.host.platform.jobs.state import Cause, HostExit, JobRecord
from stoker.host.platform.jobs.surroundings import Surroundings
from stoker.host.platform.request import TrainingRequest

_UPLOADED = ("checkpoints", "model", "output")
"""Folders of /opt/ml that are read once the job is over."""

_FLUSH_SECONDS = 120.0
_DRAIN_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptRun:
    """The newest attempt of a job, to be run to its end."""

    around: Surroundings
    control: JobControl
    request: TrainingRequest
    schedule: SpotSchedule
    grace_seconds: float
    holds: Holds

    def run(self) -> dict[str, HostExit]:
        """Start or adopt all hosts and follow them to their end; returns how each ended.

        Raises:
            EngineFailed: a host cannot start.
            EngineLost: what ran is gone.
            ServerClosing: the server ends; the hosts go on.
        """
        record = self.control.read()
        with ExitStack() as ending:
            feeds = Feeds(self.request, self.around, self.control.wake)
            ending.callback(feeds.stop)
            feeds.start(self._hosts_there(record))
            self._launch(record)
            syncs = [
                make_sync(self.around.root, self.request, host, kept, self.around.storage)
                for host in self.request.hosts
                for kept in list_kept_folders(self.request)
            ]
            for sync in syncs:
                ending.callback(sync.flush_and_stop, 0.0)
                sync.start()
            pumps = self._start_pumps(record)
            rules = RuleWatch(self._leader_dir, self.control)
            try:
                exits = self._follow(feeds, rules)
                self.holds.at(self.request.name, "drain")
                self._drain(pumps)
            except ServerClosing:
                raise
            except Exception:
                self._abandon(record, pumps)
                raise
            # What the container's root wrote must be ours before it can be read and uploaded.
            folder = self.around.root.job_dir(self.request.name)
            self.around.engine.take_ownership(folder, self.request.image)
            self._make_readable()
            rules.look()
            self._flush(syncs, exits)
            self._upload_findings(record)
            feeds.require_whole()
        return exits

    @property
    def _leader_dir(self) -> Path:
        return self.around.root.host_dir(self.request.name, self.request.hosts[0])

    def _make_readable(self) -> None:
        for host in self.request.hosts:
            for part in _UPLOADED:
                make_readable(self.around.root.host_dir(self.request.name, host), (part,))

    def _launch(self, record: JobRecord) -> None:
        engine = self.around.engine
        network = engine.make_network(
            self.request.name, self.request.hosts, isolated=self.request.isolated
        )
        if record.attempt.launched:
            self._require_all_there(record)
            return
        for host in self.request.hosts:
            engine.start(
                make_launch(
                    self.request,
                    host,
                    attempt=record.attempt.number,
                    around=self.around,
                    network=network,
                    mounts=_mounts(record, host),
                )
            )
            self.holds.at(self.request.name, "launching")
        self.control.change(lambda r, now: change_attempt(r, now, launched=True))

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
            for running in self.around.engine.list_running()
            if (running.job, running.attempt) == (self.request.name, record.attempt.number)
        }

    def _start_pumps(self, record: JobRecord) -> list[LogPump]:
        pumps = [
            LogPump(
                self.around.engine,
                self.around.streams,
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

    def _follow(self, feeds: Feeds, rules: RuleWatch) -> dict[str, HostExit]:
        record = self.control.read()
        names = {host: self._name(record, host) for host in self.request.hosts}
        watch = HostWatch(self.around.engine, self.control, names)
        while not watch.over():
            self.control.require_server()
            watch.raise_losses()
            feeds.require_whole()  # else the script would wait for its next FIFO to the end
            rules.look()
            record = self.control.read()
            cause = record.attempt.cause or self._cause(record, watch)
            if cause and record.attempt.signalled is None:
                record = self._tell(record, cause, watch, rules)
            self._kill_late(record, watch)
            self.control.wait(self._next_moment(record, watch))
        return watch.exits

    def _cause(self, record: JobRecord, watch: HostWatch) -> Cause:
        """Why the hosts must end now; empty if they may go on."""
        told = self.control.told_to_end(record, self.request)
        if told:
            return told
        if any(exit_.code != 0 for exit_ in watch.exits.values()):
            return "host_failed"
        interruption = self.schedule.interruption_at(record)
        return "interrupted" if interruption and interruption <= time.time() else ""

    def _tell(
        self, record: JobRecord, cause: Cause, watch: HostWatch, rules: RuleWatch
    ) -> JobRecord:
        # Recorded, done, recorded: a server that dies in between tells them once more rather
        # than not at all.
        self.control.change(lambda r, now: change_attempt(r, now, cause=cause))
        self.holds.at(self.request.name, f"tell-{cause}")
        unwarned = cause == "interrupted" and not self.schedule.warning
        # A leader that carries out its rule's stop is stopping; a second SIGTERM would end it.
        stop = rules.read_stop()
        is_stopping = stop is not None and not stop.is_sent_by_platform and not unwarned
        spared = self.request.hosts[:1] if is_stopping else ()
        watch.signal(signal.SIGKILL if unwarned else signal.SIGTERM, spared=spared)
        record = self.control.change(lambda r, now: change_attempt(r, now, signalled=now))
        self.holds.at(self.request.name, "stopping")
        return record

    def _kill_late(self, record: JobRecord, watch: HostWatch) -> None:
        signalled = record.attempt.signalled
        if signalled is not None and time.time() >= signalled + self.grace_seconds:
            watch.kill_once()

    def _next_moment(self, record: JobRecord, watch: HostWatch) -> float | None:
        if watch.killed:
            return None
        signalled = record.attempt.signalled
        deadline = next_deadline(record, self.request)
        limit = deadline.at if deadline else None
        interruption = self.schedule.interruption_at(record)
        told = [limit, interruption] if signalled is None else [signalled + self.grace_seconds]
        # The rules are looked at to the end: they judge what is left while a job stops.
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
                self.around.engine.remove(self._name(record, host))
        for pump in pumps:
            pump.run_is_over.set()
            pump.join(_DRAIN_SECONDS)

    def _flush(self, syncs: list[FolderSync], exits: dict[str, HostExit]) -> None:
        """Upload what is left of the kept folders; what cannot be is said in the log.

        A job that did all its work fails by it; one that failed or was stopped keeps its reason.
        """
        failures: list[UploadFailed] = []
        for sync in syncs:
            try:
                sync.flush_and_stop(_FLUSH_SECONDS)
            except UploadFailed as failure:
                failures.append(failure)
        say_once(self.around.streams, self.request, *(failure.message for failure in failures))
        worked = all(exit_.code == 0 for exit_ in exits.values())
        if failures and worked and not self.control.read().attempt.cause:
            raise failures[0]

    def _upload_findings(self, record: JobRecord) -> None:
        number = record.attempt.number
        try:
            upload_findings(self.request, self._leader_dir, self.around.storage, attempt=number)
        except UploadFailed as failure:  # they are part of output.tar.gz as well
            say_once(self.around.streams, self.request, failure.message)

    def _name(self, record: JobRecord, host: str) -> str:
        return run_name(self.request.name, host, record.attempt.number)


def _mounts(record: JobRecord, host: str) -> tuple[Mount, ...]:
    return tuple(
        Mount(source=Path(source), target=target, read_only=read_only)
        for source, target, read_only in record.attempt.mounts.get(host, [])
    )

"""The launcher's part of a profile: when it did what, and the sampler from start to end.

Loaded only for jobs that are profiled.
"""

from __future__ import annotations

import os
import sys
import time

from stoker.bus.crash import FOLDER_VARIABLE
from stoker.bus.job_phases import JobPhase, append_phase, phases_file
from stoker.contract.files import remove_file
from stoker.contract.paths import ROOT_VARIABLE
from stoker.contract.profiler import read_profiler_settings
from stoker.runtime.signals import SIGKILL, SIGTERM, send
from stoker.runtime.step import WORKER_VARIABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.contract.job import Job
    from stoker.runtime.log import Log

STOP_SECONDS = 3.0
"""What the sampler gets to write its last sample; it takes a few milliseconds."""

_SAMPLER = "stoker.profiling.sampling"
_PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_TICKS = float(os.sysconf("SC_CLK_TCK"))
_POLL_SECONDS = 0.005
_NOT_FOR_HELPERS = (WORKER_VARIABLE, FOLDER_VARIABLE)
# Steps by their names; all others install something.
_PHASES = {"fetch code": "download", "check rules": "rules", "find peers": "start"}


class JobProfiler:
    """An error here is logged once and never fails the job."""

    def __init__(self, job: Job, log: Log) -> None:
        self._job = job
        self._log = log
        self._settings = read_profiler_settings(job)
        self._pid = 0
        self._has_trouble = False
        self._worker_end = 0.0
        # The Unix time of monotonic zero: a clock that is set during the job moves no phase.
        self._epoch = time.time() - time.monotonic()

    @property
    def is_on(self) -> bool:
        """Whether anything is measured: `steps=…` alone only records traces."""
        return self._settings.samples or self._settings.steps

    def start(self) -> None:
        """Starts the sampler, before anything else of the job."""
        for complaint in self._settings.complaints:
            self._log.warning(f"profilerconfig.json: {complaint}")
        if not self._settings.samples:
            return
        host = self._job.cluster.current_host
        remove_file(phases_file(self._settings.folder, host))  # of a run before this one
        self._append("start", "container and launcher", _own_start(), self._now())
        kept = {k: v for k, v in self._job.environ.items() if k not in _NOT_FOR_HELPERS}
        environ = {**kept, "PYTHONPATH": _PACKAGES, ROOT_VARIABLE: self._job.paths.root}
        argv = (sys.executable, "-P", "-m", _SAMPLER)
        try:
            # Its own session: a signal that a terminal sends to the job is not meant for it. It
            # has nothing to say but warnings, which need no pipe and no pump.
            self._pid = os.posix_spawn(argv[0], argv, environ, setsid=True, setsigmask=())
        except OSError as error:
            self._tell(f"the hardware is not sampled: {error.strerror}")

    def note(self, name: str, started: float, *, is_worker: bool) -> None:
        """Adds a step that has ended.

        Args:
            name: of the step.
            started: monotonic time.
            is_worker: it was the training.
        """
        now = self._now()
        phase = "training" if is_worker else _PHASES.get(name, "install")
        self._append(phase, name, self._epoch + started, now)
        if is_worker:
            self._worker_end = now

    def stop(self) -> None:
        """Ends the sampler, before the marker that its files are complete."""
        pid, self._pid = self._pid, 0
        if not pid:
            return
        # A sampler that ends before its SIGTERM has failed, and nothing else shows it.
        if not _is_running(pid):
            self._tell("the sampler ended before the training; what it has written is kept")
            return
        send(pid, SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        while _is_running(pid):
            if time.monotonic() > deadline:
                send(pid, SIGKILL)
                deadline += STOP_SECONDS
            time.sleep(_POLL_SECONDS)

    def close(self) -> None:
        """The launcher's last act."""
        self.stop()
        if self._worker_end:
            self._append("finish", "after the worker", self._worker_end, self._now())

    def _append(self, phase: str, name: str, start: float, end: float) -> None:
        if not self._settings.samples:
            return
        host = self._job.cluster.current_host
        try:
            append_phase(
                self._settings.folder,
                JobPhase(phase=phase, name=name, start=start, end=end, host=host),
            )
        except OSError as error:
            self._tell(f"the phases of the job are not written down: {error.strerror}")

    def _tell(self, trouble: str) -> None:
        if not self._has_trouble:
            self._has_trouble = True
            self._log.warning(f"profiler: {trouble}")

    def _now(self) -> float:
        return self._epoch + time.monotonic()


def _is_running(pid: int) -> bool:
    """Whether a child runs; not if the launcher has already collected it, as PID 1 does."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == 0
    except ChildProcessError:
        return False


def _own_start() -> float:
    """When this process was started: Unix time."""
    try:
        with open("/proc/self/stat", "rb") as stat, open("/proc/uptime", "rb") as uptime:
            # Field 22, in ticks since the machine's start; two fields come before the parenthesis.
            started = float(stat.read().rpartition(b")")[2].split()[19]) / _TICKS
            return time.time() - (float(uptime.read().split()[0]) - started)
    except (OSError, ValueError, IndexError):
        return time.time()

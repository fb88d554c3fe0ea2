"""The sampler's loop: `python -m stoker.profiling.sampling`, started by the launcher.

It ends on SIGTERM, or when the launcher has ended. A failure is reported once and never ends it.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from stoker.contract.job import Job, read_job
from stoker.contract.profiler import (
    ProfilerSettings,
    config_file,
    read_profiler_settings,
    read_profiler_settings_again,
)
from stoker.profiling.sampling.sample import Sampler
from stoker.profiling.sampling.sample_file import SampleFiles

LOOK_SECONDS = 1.0
"""Between two looks at profilerconfig.json."""

_STOPS = (signal.SIGTERM, signal.SIGINT)
_TROUBLES_TOLD = 3


class Settings:
    """profilerconfig.json, read again when it has changed."""

    def __init__(self, job: Job) -> None:
        self._paths, self._environ = job.paths, job.environ
        self._file = config_file(job.paths, job.environ)
        self.now = read_profiler_settings(job)
        self._state = self._look()
        self._next_look = time.monotonic() + LOOK_SECONDS

    def refresh(self) -> ProfilerSettings:
        """The settings as they are now."""
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + LOOK_SECONDS
            state = self._look()
            if state != self._state:
                self._state = state
                self.now = read_profiler_settings_again(self._paths, self._environ)
        return self.now

    def _look(self) -> tuple[int, int, int]:
        try:
            status = os.stat(self._file)
        except OSError:
            return 0, 0, 0
        return status.st_ino, status.st_mtime_ns, status.st_size


class SamplingLoop:
    """Takes samples at an even pace until SIGTERM."""

    def __init__(self, settings: Settings, node: str) -> None:
        self._settings = settings
        self._parent = os.getppid()
        self._folder = settings.now.folder
        self._sampler = Sampler(self._folder)
        self._files = SampleFiles(self._folder, node)
        self._troubles: set[str] = set()
        # Monotonic: an adjustment of the wall clock must not put samples out of order.
        self._epoch = time.time() - time.monotonic()

    def run(self) -> None:
        due = time.monotonic()
        while not self._is_stopped(due):
            settings = self._settings.refresh()
            now = time.monotonic()
            if not settings.samples:  # switched off by UpdateTrainingJob, perhaps not for ever
                due = now + LOOK_SECONDS
                continue
            self._sample(now)
            interval = settings.interval_milliseconds / 1000 * self._files.slowness
            due = max(due + interval, now)
        if self._settings.now.samples:
            self._sample(time.monotonic())
        self._files.close()

    def _is_stopped(self, due: float) -> bool:
        """Waits until the time is due, or for the end."""
        while (wait := due - time.monotonic()) > 0:
            # No longer than this, so that a new interval counts at once.
            if signal.sigtimedwait(_STOPS, min(wait, LOOK_SECONDS)) is not None:
                return True
            if os.getppid() != self._parent:
                return True
            if self._settings.refresh().interval_milliseconds / 1000 < due - time.monotonic():
                return False
        return signal.sigtimedwait(_STOPS, 0) is not None or os.getppid() != self._parent

    def _sample(self, now: float) -> None:
        try:
            events = self._sampler.take(now)
        except Exception as error:  # a kernel that writes its files in another way
            self._tell(f"a sample failed: {type(error).__name__}: {error}")
            return
        if events:
            self._files.write(events, self._epoch + now)
        if self._files.trouble:
            self._tell(self._files.trouble)

    def _tell(self, trouble: str) -> None:
        if trouble not in self._troubles and len(self._troubles) < _TROUBLES_TOLD:
            self._troubles.add(trouble)
            _warn(trouble)


def main() -> int:
    """Samples until SIGTERM."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
    job = read_job()
    settings = Settings(job)
    for complaint in settings.now.complaints:
        _warn(complaint)
    SamplingLoop(settings, job.cluster.current_host).run()
    return 0


def _warn(text: str) -> None:
    os.write(2, f"[stoker] warning: profiler: {text}\n".encode("utf-8", "replace"))


if __name__ == "__main__":
    sys.exit(main())

"""Python profiles of the steps asked for: cProfile or pyinstrument, in SageMaker's folders.

framework/pytorch/<profiler>/<node>/<mode>-<step>-stepstart-<µs>_<mode>-<step>-stepend-<µs>/
"""

from __future__ import annotations

import cProfile
import os
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

MOST_PROFILES = 200
"""A range of time may have a million steps."""

_SUCCESSION = ("total_time", "off_cpu_time", "cpu_time")
"""Of the timer `default`: one step each."""


class PythonProfile:
    """Profiles whole steps of the thread that trains, one file each."""

    def __init__(self, folder: str, node: str, profiler: str, timer: str) -> None:
        """Raises:
        ImportError: pyinstrument is asked for and not installed.
        """
        self._folder = f"{folder}/framework/pytorch/{profiler}/{node}"
        self._timer = timer
        self._is_cprofile = profiler == "cprofile"
        self._pyinstrument: Any = None if self._is_cprofile else import_module("pyinstrument")
        self._running: Any = None
        self._began_us = 0
        self._step = self._count = 0

    @property
    def is_running(self) -> bool:
        return self._running is not None

    def start(self, step: int) -> None:
        """A step of the range begins.

        Raises:
            ValueError: the script profiles by itself.
        """
        if self._count >= MOST_PROFILES:
            return
        if self._is_cprofile:
            profile: Any = cProfile.Profile(_timer(self._timer, self._count))
            profile.enable()
        else:
            profile = self._pyinstrument.Profiler(async_mode="disabled")
            profile.start()
        self._running, self._step, self._began_us = profile, step, int(time.time() * 1e6)
        self._count += 1

    def discard(self) -> None:
        """The script ends within a step: that one is not written."""
        profile, self._running = self._running, None
        if profile is not None and self._is_cprofile:
            profile.disable()
        elif profile is not None:
            profile.stop()

    def stop(self) -> None:
        """It has ended: writes its profile.

        Raises:
            OSError: it cannot be written.
        """
        profile, self._running = self._running, None
        if profile is None:
            return
        if self._is_cprofile:
            profile.disable()
        else:
            profile.stop()
        now_us = int(time.time() * 1e6)
        name = f"train-{self._step}-stepstart-{self._began_us}_train-{self._step}-stepend-{now_us}"
        folder = f"{self._folder}/{name}"
        os.makedirs(folder, exist_ok=True)
        if self._is_cprofile:
            profile.create_stats()
            profile.dump_stats(f"{folder}/python_stats")
            return
        renderers = import_module("pyinstrument.renderers")
        _write(f"{folder}/python_stats.json", profile.output(renderers.JSONRenderer()))
        _write(f"{folder}/python_stats.html", profile.output_html())


def _timer(name: str, count: int) -> Callable[[], float]:
    name = _SUCCESSION[count % len(_SUCCESSION)] if name == "default" else name
    return {
        "total_time": time.perf_counter,
        "cpu_time": time.process_time,
        "off_cpu_time": _off_cpu_time,
    }[name]


def _off_cpu_time() -> float:
    return time.perf_counter() - time.process_time()


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)

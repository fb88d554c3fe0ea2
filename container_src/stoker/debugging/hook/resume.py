"""Where the counting of steps goes on after an interruption: smdebug's own state file.

`metadata.json` lies beside the checkpoints and comes back with them. It says how many steps were
done when each checkpoint was made, so that a resumed run does not begin again at step 0.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, cast

from stoker.contract.files import write_atomically
from stoker.contract.record import Record
from stoker.debugging.step_tensors import Mode
from stoker.debugging.tensors.index_folder import IndexFolder

FILE = "metadata.json"
_MOST_FILES = 8
"""Whose times are looked at before each step: the ones that were written last."""
_MOST_STATES = 100


class Counts(Record):
    """How far a run is."""

    step: int = -1
    mode_steps: Mapping[Mode, int] = {}
    last_saved_step: int | None = None
    run: int = 0
    """How often the job was started before."""


def read_counts(folder: str) -> Counts:
    """Those of the newest checkpoint; from the beginning if there are none."""
    states = _read_states(folder)
    if not states:
        return Counts()
    try:
        newest = max(states, key=lambda state: int(state["latest-global-step-seen"]))
        modes = {name: int(count) for name, count in newest["latest-mode-step"].items()}
        modes.pop("GLOBAL", None)  # the count over all modes
        return Counts(
            step=int(newest["latest-global-step-seen"]),
            mode_steps=cast(dict[Mode, int], modes),
            last_saved_step=newest["latest-global-step-saved"],
            run=int(newest["training-run"]) + 1,
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return Counts()


def read_saved_counts(folder: str, worker: str) -> Counts:
    """How far another process came that saved in the same folder, as the same worker."""
    found = [index for index in IndexFolder(folder).find_new() if index.worker == worker]
    if not found:
        return Counts()
    modes: dict[Mode, int] = {}
    for index in found:
        modes[index.meta.mode] = max(modes.get(index.meta.mode, -1), index.meta.mode_step)
    return Counts(step=found[-1].step, mode_steps=modes, last_saved_step=found[-1].step)


class CheckpointWatch:
    """Writes the counts down whenever a checkpoint was made since it last looked."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._states = _read_states(folder)
        self._files: list[str] = []
        self._seen = self._look(is_thorough=True)

    def note(self, counts: Counts) -> None:
        """Called between two steps, with what was done up to now.

        Raises:
            OSError: the file cannot be written.
        """
        if self._look(is_thorough=False) == self._seen:
            return
        times = self._look(is_thorough=True)
        if times != self._seen and self._files:
            self._states = [*self._states, _state(counts)][-_MOST_STATES:]
            write_atomically(f"{self._folder}/{FILE}", json.dumps(self._states))
        self._seen = self._look(is_thorough=True)

    def _look(self, *, is_thorough: bool) -> list[int]:
        """When the folder and its newest files changed last."""
        if is_thorough:
            found = [(_changed_at(path), path) for path in _checkpoint_files(self._folder)]
            self._files = [path for _, path in sorted(found)[-_MOST_FILES:]]
        return [_changed_at(path) for path in (self._folder, *self._files)]


def _changed_at(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _checkpoint_files(folder: str) -> Iterator[str]:
    for parent, _, names in os.walk(folder):
        for name in names:
            if name != FILE and "sagemaker-" not in name:
                yield os.path.join(parent, name)


def _state(counts: Counts) -> dict[str, Any]:
    return {
        "training-run": counts.run,
        "latest-global-step-saved": counts.last_saved_step,
        "latest-global-step-seen": counts.step,
        "latest-mode-step": {**counts.mode_steps, "GLOBAL": counts.step},
    }


def _read_states(folder: str) -> list[dict[str, Any]]:
    try:
        with open(f"{folder}/{FILE}", encoding="utf-8") as file:
            states = json.load(file)
    except (OSError, ValueError):
        return []
    return states if isinstance(states, list) else []

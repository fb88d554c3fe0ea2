"""Where the count of steps continues after an interruption: smdebug's own state file.

`metadata.json` is next to the checkpoints and is restored with them. It says how many steps were
done when each checkpoint was made, so that a resumed run does not begin again at step 0.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from stoker.contract.files import read_regular, write_atomically
from stoker.contract.upload_markers import IGNORED
from stoker.debugging.step_tensors import Mode
from stoker.debugging.tensors.index import IndexFolder

FILE = "metadata.json"
_LOOK_SECONDS = 1.0
_MOST_WATCHED = 8
"""Files, and folders, whose times are looked at: the ones that were written last."""
_MOST_STATES = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """How far a run is."""

    step: int = -1
    mode_steps: Mapping[Mode, int] = field(default_factory=dict)
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
    """Has the counts written down whenever a checkpoint was made since it last looked."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._states = _read_states(folder)
        self._watched: list[str] = []
        self._known: set[tuple[int, str]] = set()
        self._find()
        self._seen = self._look()
        self._looked_at = time.monotonic()

    def note(
        self, counts: Callable[[], Counts], *, is_last: bool = False
    ) -> Callable[[], None] | None:
        """Called between two steps. Looks at most once a second, unless it is for the last time.

        Args:
            counts: tells what was done up to now.
            is_last: this is the last look.

        Returns:
            What writes it down, if that has to be: it waits for the disk, and may raise OSError.
        """
        if not is_last and time.monotonic() - self._looked_at < _LOOK_SECONDS:
            return None
        self._looked_at = time.monotonic()
        if self._look() == self._seen:
            return None
        has_new = self._find()
        # Again, since _find() may have chosen other files to watch.
        self._seen = self._look()
        if not has_new:
            return None
        self._states = states = [*self._states, _state(counts())][-_MOST_STATES:]
        return lambda: write_atomically(f"{self._folder}/{FILE}", json.dumps(states))

    def _look(self) -> list[int]:
        """When the folders and the newest files changed last."""
        return [_changed_at(path) for path in self._watched]

    def _find(self) -> bool:
        """Goes through all files. Returns whether one of them is new, or was written again."""
        folders, files = _checkpoint_paths(self._folder)
        before, self._known = self._known, set(files)
        self._watched = [self._folder, *(path for _, path in _newest(folders) + _newest(files))]
        return not self._known <= before


def _newest(found: list[tuple[int, str]]) -> list[tuple[int, str]]:
    return sorted(found)[-_MOST_WATCHED:]


def _changed_at(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _checkpoint_paths(folder: str) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """Folders and files, each with the time at which it changed."""
    folders, files = [], []
    for parent, inside, names in os.walk(folder):
        # A checkpoint that is being written is none yet; it will get another name.
        inside[:] = [name for name in inside if not name.endswith(IGNORED)]
        folders.append((_changed_at(parent), parent))
        for name in names:
            # The uploader's marker files change when no checkpoint was made.
            if name != FILE and "sagemaker-" not in name:
                path = os.path.join(parent, name)
                files.append((_changed_at(path), path))
    return folders, files


def _state(counts: Counts) -> dict[str, Any]:
    return {
        "training-run": counts.run,
        "latest-global-step-saved": counts.last_saved_step,
        "latest-global-step-seen": counts.step,
        "latest-mode-step": {**counts.mode_steps, "GLOBAL": counts.step},
    }


def _read_states(folder: str) -> list[dict[str, Any]]:
    try:
        states = json.loads(read_regular(f"{folder}/{FILE}"))
    except (OSError, ValueError, RecursionError):
        return []
    return states if isinstance(states, list) else []

"""What the evaluator in the leader's container has written: statuses, and a request to stop.

Files, not the API: a container in a network of its own, or in none, reaches its own disk.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from stoker.bus.stop import StopRequest
from stoker.platform.data.confined import Parts, read_start
from stoker.platform.jobs.changes import ask_to_stop
from stoker.platform.jobs.control import JobControl
from stoker.platform.jobs.rule_statuses import note_statuses, parse_statuses

LOOK_SECONDS = 0.5

_STATUSES: Parts = ("output", "data", "stoker", "rules.json")
_STOP: Parts = ("output", "stoker", "stop.json")
# A job may write anything there; rules.json has 40 rules of at most 1 KiB of details.
_MOST_BYTES = 1 << 20


class RuleWatch:
    """Looks at the leader's folder; what is new there is recorded."""

    def __init__(self, leader_dir: Path, control: JobControl) -> None:
        self._folder = leader_dir
        self._control = control
        self._seen = b""

    def look(self) -> None:
        """Record what has changed since the last look."""
        self._note_statuses()
        stop = self.read_stop()
        if stop is not None and not self._control.read().stop_asked:
            why = f"{stop.by}, step {stop.step}: {stop.reason}"
            self._control.change(lambda r, now: r if r.stop_asked else ask_to_stop(r, now, by=why))

    def read_stop(self) -> StopRequest | None:
        """The stop that a rule has asked for.

        With one host the launcher acts on it itself; with several it waits for our SIGTERM.
        """
        try:
            request = StopRequest(**json.loads(read_start(self._folder, _STOP, _MOST_BYTES)))
        except (ValueError, RecursionError, TypeError):  # not there, or not ours
            return None
        is_valid = isinstance(request.by, str) and request.by.startswith("rule ")
        return request if is_valid else None

    def _note_statuses(self) -> None:
        text = read_start(self._folder, _STATUSES, _MOST_BYTES)
        if not text or text == self._seen:
            return
        said = parse_statuses(text, time.time())
        known = self._control.read()
        if note_statuses(known, said) is not known:  # not for a step that was only counted
            self._control.change(lambda record, _now: note_statuses(record, said))
        self._seen = text

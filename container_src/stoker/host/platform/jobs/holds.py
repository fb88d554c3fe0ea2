"""A debugging aid: the server waits at named points of a job's life while a file exists.

`STOKER_HOLD="JOB/uploading=/folder/hold"` (several with `;` between them): when the life of JOB
comes to `uploading` while /folder/hold exists, it writes /folder/hold.reached and waits until
/folder/hold is gone. Points: every stage, and launching, tell-<cause>, stopping, drain, uploaded,
cleaned. The tests that kill the server at every stage stand on it; nothing else should.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "STOKER_HOLD"
_POLL_SECONDS = 0.2


class Holds:
    """The points, if any, at which this server waits."""

    def __init__(self, environment: Mapping[str, str], closing: threading.Event) -> None:
        parts = environment.get(VARIABLE, "").split(";")
        pairs = [part.split("=", 1) for part in parts if "=" in part]
        self._files = {point: Path(file) for point, file in pairs}
        self._closing = closing

    def at(self, job: str, point: str) -> None:
        """Wait here if this is one of the points."""
        file = self._files.get(f"{job}/{point}")
        if file is None or not file.exists():
            return
        file.with_name(f"{file.name}.reached").touch()
        while file.exists() and not self._closing.wait(_POLL_SECONDS):
            pass

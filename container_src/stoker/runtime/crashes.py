"""A private folder for the crash files of one launch."""

from __future__ import annotations

import os
import time
from pathlib import Path


class CrashFolder:
    """Made on entering, removed on leaving.

    Where it cannot be made (a full or read-only disk) the log's tail has to do: no error.
    """

    def __init__(self, parent: str) -> None:
        # `import tempfile` would cost more than the rest of the launcher's start.
        self.path = Path(parent) / f"stoker-{os.getpid()}-{time.time_ns()}"

    def __enter__(self) -> Path:
        try:
            self.path.mkdir(mode=0o700)
        except OSError:
            return self.path
        return self.path

    def __exit__(self, *_: object) -> None:
        if self.path.is_dir():
            for file in self.path.iterdir():
                file.unlink(missing_ok=True)
            self.path.rmdir()

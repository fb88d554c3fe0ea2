"""A private folder for the crash files of one launch."""

from __future__ import annotations

import os
import time

from stoker.contract.files import remove_file


class CrashFolder:
    """Made on entering, removed on leaving.

    Where it cannot be made (a full or read-only disk) the log's tail has to do: no error.
    """

    def __init__(self, parent: str) -> None:
        # `import tempfile` would cost more than the rest of the launcher's start.
        self.path = f"{parent}/stoker-{os.getpid()}-{time.time_ns()}"

    def __enter__(self) -> str:
        try:
            # Messages may hold secrets, which are masked only when one of them is reported.
            os.mkdir(self.path, mode=0o700)
        except OSError:
            return self.path
        return self.path

    def __exit__(self, *_: object) -> None:
        try:
            for name in os.listdir(self.path):
                remove_file(f"{self.path}/{name}")
            os.rmdir(self.path)
        except OSError:
            return  # a straggler still writes there: no reason to spoil the outcome

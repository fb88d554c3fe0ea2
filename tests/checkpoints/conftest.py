"""What torch does to a process when it is first used is not for a single test to answer for."""

from __future__ import annotations

import getpass
import os
import tempfile


def pytest_configure() -> None:
    # Set by torch itself at the first step of an optimizer.
    cache = f"{tempfile.gettempdir()}/torchinductor_{getpass.getuser()}"
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", cache)

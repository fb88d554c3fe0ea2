"""smdebug's wheel as published, and repacked, for tests that use it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from stoker.debugging.repack import repack

LOCK = Path(__file__).resolve().parents[1] / "docker/smdebug.lock"


def fetch_published(folder: Path) -> Path:
    """The wheel that docker/smdebug.lock names, checked by pip against the lock's hash."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    subprocess.run([*pip, "--dest", folder, "-r", LOCK], check=True, timeout=240)
    return next(folder.glob("smdebug-*.whl"))


def make_wheels(folder: Path) -> dict[int, Path]:
    """The repacked wheel of each level."""
    published = fetch_published(folder)
    return {level: repack(published, folder, level=level) for level in (1, 2)}

"""The platform as a user starts it, and stock SDK code run against it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

_DEADLINE_SECONDS = 200


@dataclass(frozen=True)
class Platform:
    """One that is up, and the variables that point stock code at it."""

    root: Path
    environ: dict[str, str]

    def file(self, uri: str) -> Path:
        """The object as a file."""
        return self.root / "s3" / uri.removeprefix("s3://")


def stoker(*arguments: str, **environ: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "stoker.cli.main", *arguments],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=_DEADLINE_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="package")
def platform(tmp_path_factory):
    """Interrupts every spot job three times; no script has to ask for it."""
    root = tmp_path_factory.mktemp("platform")
    place = ("--root", str(root))
    up = ("local", "up", "--detach", "--engine", "docker", "--slots", "4")
    stoker(*up, *place, STOKER_SPOT="every=4s,times=3")
    try:
        shown = json.loads(stoker("local", "env", "--shell", "json", *place))
        yield Platform(root, {name: text for name, text in shown.items() if text is not None})
    finally:
        stoker("local", "down", *place)


@pytest.fixture(scope="package")
def points(tmp_path_factory):
    """The data of the job that learns."""
    folder = tmp_path_factory.mktemp("points")
    (folder / "points.json").write_text("[[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]]")
    return folder

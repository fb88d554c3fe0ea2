"""`train` finds its package and its Python in every way that pip installs them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "container_src"
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"


def install(prefix: Path, packages: str, *, interpreter: str | None) -> Path:
    """A prefix as pip leaves it; returns its `train`."""
    (prefix / "bin").mkdir(parents=True)
    train = Path(shutil.copy(SOURCE / "bin/train", prefix / "bin"))
    folder = prefix / "lib" / PYTHON / packages
    folder.mkdir(parents=True)
    (folder / "stoker").symlink_to(SOURCE / "stoker")
    if interpreter:
        (prefix / "bin" / interpreter).symlink_to(sys.executable)
    return train


def run(train: Path, path: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PATH": path}
    return subprocess.run(
        [str(train), "--dry-run"], env=environ, capture_output=True, text=True, timeout=240
    )


@pytest.mark.parametrize(
    ("packages", "interpreter"),
    [
        ("site-packages", "python3"),  # a venv, conda, Python's own images
        ("site-packages", PYTHON),
        ("dist-packages", None),  # Debian's pip: the interpreter is in /usr/bin
        ("site-packages", None),  # pip install --user
    ],
)
@pytest.mark.parametrize("linked", [False, True])
def test_train_starts_from_every_kind_of_prefix(tmp_path, packages, interpreter, linked):
    train = install(tmp_path / "prefix", packages, interpreter=interpreter)
    if linked:
        (tmp_path / "train").symlink_to(train)
        train = tmp_path / "train"
    elsewhere = tmp_path / "path"
    elsewhere.mkdir()
    if interpreter is None:
        (elsewhere / PYTHON).symlink_to(sys.executable)
    done = run(train, f"{elsewhere}:/usr/bin:/bin")
    assert "no entry point" in done.stdout + done.stderr


def test_a_prefix_without_the_package_says_what_to_install(tmp_path):
    (tmp_path / "bin").mkdir()
    train = Path(shutil.copy(SOURCE / "bin/train", tmp_path / "bin"))
    done = run(train, "/usr/bin:/bin")
    assert done.returncode == 1
    assert "pip install stoker" in done.stderr

"""A fake /opt/ml for the contract tests: real files in a real folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

FILES = {
    "hyperparameters": "hyperparameters.json",
    "channels": "inputdataconfig.json",
    "resources": "resourceconfig.json",
}


def write_root(root: Path, *, program: str = "train.py", **configs: object) -> Path:
    """Makes the tree of one job; a config that is None gets no file, bytes are written as is."""
    for folder in ("input/config", "input/data", "code", "model", "output/data"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    if program:
        (root / "code" / program).write_text("print('hello')\n")
    for name, content in configs.items():
        if content is None:
            continue
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        (root / "input/config" / FILES.get(name, name)).write_bytes(raw)
    return root


@pytest.fixture(name="write_root")
def _write_root():
    """The function itself, for tests that write many trees."""
    return write_root


@pytest.fixture
def make_root(tmp_path):
    """Writes a job's tree below tmp_path and returns its root."""
    return lambda **configs: write_root(tmp_path / "opt-ml", **configs)

"""The Keras callback, with Keras on torch. On TensorFlow: tests/docker/test_tensorflow.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    find_spec("keras") is None, reason="keras is not installed: docker/frameworks.lock"
)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """In a process of its own: Keras chooses its backend when it is imported."""
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("keras_runs.py"), tmp_path_factory.mktemp("k")],
        env={**os.environ, "KERAS_BACKEND": "torch", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_an_interrupted_run_continues_as_if_nothing_had_happened(results):
    check_resume(results)


def test_what_cannot_be_saved_or_restored_is_refused(results):
    assert "does not fit the model" in results["other model"]
    assert "'accuracy' was not logged, but these were: loss, mae" in results["not logged"]


def check_resume(results):
    """Of a run on any backend: losses, metrics and weights are those of the whole run."""
    whole, interrupted, resumed = (results[n] for n in ("whole", "interrupted", "resumed"))
    assert interrupted["stopped"]
    assert interrupted["epochs"] == [0, 1]
    assert interrupted["checkpoints"][-1] == "000006-step-17"
    assert interrupted["left"] == {"by": "SIGTERM", "step": 17, "checkpoint": 17, "reason": ""}
    assert not resumed["stopped"]
    assert resumed["epochs"] == [1, 2]
    assert {name: losses[1:] for name, losses in whole["history"].items()} == resumed["history"]
    assert resumed["weights"] == whole["weights"]
    assert results["finished"]["epochs"] == []
    assert results["finished"]["weights"] == whole["weights"]
    assert whole["checkpoints"][-1].startswith("0000")
    assert any(name.endswith("step-30 best") for name in whole["checkpoints"])
    assert not any(resumed["problems"])

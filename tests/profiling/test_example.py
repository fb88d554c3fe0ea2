"""The example that shows all of TensorBoard does so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .training import steps_of

pytestmark = pytest.mark.functional

EXAMPLE = Path(__file__).parents[2] / "examples/by_feature/tensorboard/train.py"


def test_the_example_leaves_events_a_trace_and_a_model(opt_ml):
    pytest.importorskip("tensorboard")
    opt_ml.hyperparameters(epochs="1", pictures="192")
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        env={**os.environ, "STOKER_ROOT": str(opt_ml.root), "PYTHONPATH": ":".join(sys.path)},
        cwd=opt_ml.root,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    assert "[metric] step=6 test/accuracy=" in done.stdout
    board = opt_ml.root / "output/tensorboard"
    assert list(board.glob("events.out.tfevents.*"))
    assert (board / "projector_config.pbtxt").is_file()
    (trace,) = board.rglob("*.pt.trace.json.gz")
    assert steps_of(trace) == [2, 3, 4]
    assert (opt_ml.root / "model/model.pt").is_file()

"""A stop after the worker's end, while rules are still judged: how it ended stands."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import stoker

pytestmark = pytest.mark.functional

PACKAGES = str(Path(stoker.__file__).parents[1])
LONGEST_SECONDS = 280  # the evaluator is niced: on a busy machine it takes its time
# Judges until the test lets it go on, so that the stop comes in between on any machine.
SLOW_RULE = """
    import os, time
    from stoker import Need, Rule

    class Slow(Rule):
        def needs(self):
            return [Need(collection="losses")]

        def check(self, step, tensors):
            root = os.environ["STOKER_ROOT"]
            open(root + "/judging", "w").close()
            while not os.path.exists(root + "/go"):
                time.sleep(0.01)
"""
SCRIPT = """
    import os, time
    import numpy as np
    from stoker.debugging.tensors import SavedStep, write_step

    root = os.environ["STOKER_ROOT"]
    tensors = {{"CrossEntropyLoss_output_0": np.array([1.0], np.float32)}}
    saved = SavedStep(step=0, mode="TRAIN", mode_step=0, tensors=tensors)
    write_step(root + "/output/tensors", "worker_0", saved)
    while not os.path.exists(root + "/judging"):
        time.sleep(0.01)
    {last_line}
"""
TORCHRUN = {"sagemaker_torch_distributed_enabled": "true"}


def run_and_stop_late(opt_ml, last_line, **hyperparameters):
    """Runs a job that gets SIGTERM when its worker has ended and its rule has not."""
    (opt_ml.root / "code/slow.py").write_text(textwrap.dedent(SLOW_RULE))
    opt_ml.script(SCRIPT.format(last_line=last_line), **hyperparameters)
    process = opt_ml.start(STOKER_RULES="slow.py:Slow", PYTHONPATH=PACKAGES)
    opt_ml.wait_for("output/tensors/training_job_end.ts")
    process.send_signal(signal.SIGTERM)
    (opt_ml.root / "go").touch()
    _, err = process.communicate(timeout=LONGEST_SECONDS)
    return process.returncode, err


@pytest.mark.parametrize("launch", [{}, TORCHRUN], ids=["python", "torchrun"])
def test_a_failure_before_the_stop_is_a_failure_and_has_its_reason(opt_ml, launch):
    code, err = run_and_stop_late(opt_ml, "raise ValueError('the data are gone')", **launch)
    assert code == 1, err
    assert opt_ml.failure.startswith("ValueError: the data are gone")
    assert "stopped by SIGTERM" not in err


def test_a_success_before_the_stop_is_a_success(opt_ml):
    code, err = run_and_stop_late(opt_ml, "print('trained')")
    assert code == 0, err
    assert err.endswith("[stoker] success\n")
    assert "rules: Slow NoIssuesFound" in err


SIDECAR = """
    import os, sys, time
    from stoker.contract.paths import Paths
    from stoker.runtime.sidecar import Sidecar
    from stoker.runtime.signals import SIGTERM, Signals
    from stoker.runtime.step import LaunchStep

    root, code, seconds_ago = sys.argv[1:]
    signals = Signals()
    signals.install()
    argv = (sys.executable, "-c", code)
    step = LaunchStep(name="the sidecar", argv=argv, environ=dict(os.environ), folder=root)
    sidecar = Sidecar(step, Paths(root=root))
    while not os.path.exists(root + "/ready"):
        time.sleep(0.01)
    signals.stop_signal = SIGTERM
    signals.stopped_at = time.monotonic() - float(seconds_ago)
    sidecar.finish(signals, limit_seconds=60)
    print(sidecar.trouble)
"""
# Concludes at once; or takes its time, as an evaluator does that has a rule in hand.
CONCLUDES = """
import signal, sys, time
signal.signal(signal.SIGINT, lambda *_: (time.sleep({seconds}), sys.exit(0)))
open("ready", "w").close()
time.sleep(280)
"""


@pytest.mark.parametrize(
    ("seconds_ago", "takes_seconds", "trouble"),
    [("111", 0, ""), ("117", 100, "the sidecar did not end in time and was killed")],
)
def test_a_sidecar_has_ended_before_the_platform_kills(
    tmp_path, seconds_ago, takes_seconds, trouble
):
    concludes = CONCLUDES.format(seconds=takes_seconds)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SIDECAR), str(tmp_path), concludes, seconds_ago],
        capture_output=True,
        text=True,
        timeout=LONGEST_SECONDS,
        env={**os.environ, "PYTHONPATH": PACKAGES},
    )
    assert done.stdout == f"{trouble}\n", done.stderr

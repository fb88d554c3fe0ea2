"""The tuning example: one script, searched by the command line and by both SDKs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sdks import sdk_python

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/by_feature/tuning"
# Each trial imports torch, which takes its time on a busy machine.
pytestmark = pytest.mark.timeout(900)


def run(server, *command):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "STOKER_"))}
    done = subprocess.run(
        command,
        env={**clean, **server.sdk_environ()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=800,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_the_sdks_search_the_example(server, version):
    program = EXAMPLE / f"tuner_{version}.py"
    words = ("--image", server.image, "--trials", "1")
    said = run(server, sdk_python(version), program, *words)
    assert "FinalObjectiveValue" in said
    assert "best: moons-" in said


def test_the_command_line_searches_the_example(server):
    said = run(
        server,
        *(sys.executable, "-m", "stoker.cli.main", "tune", EXAMPLE / "train.py"),
        *("--range", "lr=1e-4..1e-1:log", "--choice", "optimizer=sgd,adam"),
        *("--maximize", "val_acc", "--trials", "2", "--parallel", "2", "--param", "epochs=2"),
        *("--seed", "7", "--name", "moons", "--root", str(server.root.folder)),
    )
    assert "tune: moons is Completed" in said
    assert "val_acc" in said

"""The example reads like a textbook, so it had better be right."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.functional

EXAMPLE = Path(__file__).parents[2] / "examples/by_feature/spot.py"
LONGEST_LINES = 120


def start(folder):
    environ = {**os.environ, "STOKER_ROOT": str(folder), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-u", str(EXAMPLE)],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def results(text):
    return re.findall(r"^(?:step|epoch) .*$", text, re.MULTILINE)


def test_the_spot_example_continues_after_a_stop_and_ends_the_same(tmp_path):
    whole, _ = start(tmp_path / "whole").communicate(timeout=240)
    process = start(tmp_path / "cut")
    first = ""
    while "step 50 " not in first:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        first += line
    process.send_signal(signal.SIGTERM)
    with process:  # communicate() would pass over what readline() has read ahead
        first += process.stdout.read()
        said = process.stderr.read()
    assert process.returncode == 0, said
    assert "start me again" in first
    second, said = start(tmp_path / "cut").communicate(timeout=240)
    assert "resumed from step" in said
    assert results(first) + results(second) == results(whole)
    assert (tmp_path / "cut/model/model.pt").exists()


def test_the_spot_example_is_short():
    assert len(EXAMPLE.read_text().splitlines()) <= LONGEST_LINES

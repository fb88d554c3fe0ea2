"""A few kills of the long run; `make torture` has more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.functional


def test_a_run_killed_at_random_moments_ends_as_if_nothing_had_happened():
    torture = Path(__file__).with_name("torture.py")
    ended = subprocess.run(
        [sys.executable, str(torture), "--kills=6", "--seed=5"],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "6 kills" in ended.stdout

"""The profiler is loaded once, before any test."""

from __future__ import annotations

import os

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def _profiler_is_loaded():
    # The first recording of a process loads inductor, which sets a variable.
    before = set(os.environ)
    with torch.profiler.profile():
        pass
    yield
    for name in set(os.environ) - before - {"PYTEST_CURRENT_TEST"}:
        del os.environ[name]

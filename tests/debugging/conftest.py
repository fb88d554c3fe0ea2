"""What torch and smdebug load or set late is there before any test."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True, scope="session")
def _late_imports_are_done():
    import torch

    before = set(os.environ)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    # The first optimizer of a process loads inductor, which sets a variable.
    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    yield
    torch.set_num_threads(threads)
    for name in set(os.environ) - before - {"PYTEST_CURRENT_TEST"}:
        del os.environ[name]

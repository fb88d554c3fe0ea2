"""What torch does to a process when it is first used is not for a single test to answer for."""

from __future__ import annotations

import getpass
import os
import tempfile

import pytest

from tests.checkpoints.runs import Run


def pytest_configure() -> None:
    # Set by torch itself at the first step of an optimizer.
    cache = f"{tempfile.gettempdir()}/torchinductor_{getpass.getuser()}"
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", cache)


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """The run that nothing interrupts."""
    run = Run(tmp_path_factory.mktemp("runs") / "whole")
    run.finish()
    return run


@pytest.fixture(scope="session")
def whole_of_two(tmp_path_factory):
    """The same of two ranks."""
    run = Run(tmp_path_factory.mktemp("runs") / "whole-of-two", ranks=2)
    run.finish()
    return run

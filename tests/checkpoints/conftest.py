"""What torch does to a process when it is first used is not for a single test to answer for."""

from __future__ import annotations

import getpass
import os
import tempfile

import pytest

from stoker.runtime.processes import descendants
from tests.checkpoints.runs import FORKS, Run
from tests.conftest import OF_THE_SESSION


def pytest_configure() -> None:
    # Set by torch itself at the first step of an optimizer.
    cache = f"{tempfile.gettempdir()}/torchinductor_{getpass.getuser()}"
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", cache)


@pytest.fixture(scope="session")
def fork_server():
    """The process that has torch loaded starts here, so that it outlives any single test."""
    process = FORKS.Process()
    process.start()
    process.join()
    OF_THE_SESSION.update(descendants(os.getpid()))


@pytest.fixture(scope="session")
def whole(tmp_path_factory, fork_server):
    """The run that nothing interrupts."""
    run = Run(tmp_path_factory.mktemp("runs") / "whole")
    run.finish()
    return run


@pytest.fixture(scope="session")
def whole_of_two(tmp_path_factory, fork_server):
    """The same of two ranks."""
    run = Run(tmp_path_factory.mktemp("runs") / "whole-of-two", ranks=2)
    run.finish()
    return run

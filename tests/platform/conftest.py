"""One real server per test, and nothing left of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.runtime.processes import descendants
from tests.conftest import OF_THE_SESSION
from tests.platform.local_server import LocalServer


@pytest.fixture
def root_folder(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def make_server(root_folder: Path) -> Iterator[type[LocalServer]]:
    """For tests that choose the engine or start it themselves."""
    made: list[LocalServer] = []

    def make(engine: str = "process", slots: int = 4) -> LocalServer:
        made.append(LocalServer(root_folder, engine, slots))
        return made[-1]

    yield make
    for server in made:
        server.end()


@pytest.fixture
def server(make_server) -> LocalServer:
    """A running server with the process engine."""
    return make_server().start()


@pytest.fixture(scope="module")
def module_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """One running server for all tests of a module, which share its state."""
    made = LocalServer(tmp_path_factory.mktemp("platform") / "root").start()
    kept = set(descendants(os.getpid())) - OF_THE_SESSION
    OF_THE_SESSION.update(kept)
    yield made
    made.end()
    OF_THE_SESSION.difference_update(kept)

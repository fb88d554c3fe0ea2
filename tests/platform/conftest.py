"""One real server per test, and nothing left of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

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

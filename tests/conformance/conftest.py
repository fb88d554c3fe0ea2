"""The broken images, each built once in a run."""

from __future__ import annotations

import pytest

from tests.conformance.faults import Workshop, all_faults


@pytest.fixture(scope="session")
def faults():
    return all_faults()


@pytest.fixture(scope="session")
def broken(tmp_path_factory, faults):
    """The name of the image that is broken for one check."""
    workshop = Workshop(tmp_path_factory.mktemp("faults"))
    yield lambda number: workshop.image(faults[number])
    workshop.close()

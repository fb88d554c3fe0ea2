"""Which process this is, by what launchers set."""

from __future__ import annotations

import pytest

from stoker.contract.rank import Rank, read_rank


@pytest.mark.parametrize(
    ("environ", "rank"),
    [
        ({}, None),
        ({"RANK": "3", "WORLD_SIZE": "8"}, Rank(number=3, count=8)),
        (
            {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"},
            Rank(number=1, count=2),
        ),
        ({"RANK": "0", "OMPI_COMM_WORLD_RANK": "1"}, Rank(number=0, count=1)),
        ({"RANK": "2", "WORLD_SIZE": "many"}, Rank(number=2, count=1)),
        ({"RANK": "-1"}, None),
        ({"RANK": "²"}, None),
    ],
)
def test_a_launchers_number_is_read_and_nothing_else(environ, rank):
    assert read_rank(environ) == rank

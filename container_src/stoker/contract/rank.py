"""Which of a job's processes this one is, where a launcher numbers them."""

from __future__ import annotations

from stoker.contract.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# Of torchrun, and of Open MPI: this process's number, and how many there are.
_VARIABLES = (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"))


class Rank(Record):
    """One process among all of a job, over all hosts."""

    number: int
    count: int


def read_rank(environ: Mapping[str, str]) -> Rank | None:
    """None where no launcher numbers its processes: a plain script on one or several hosts."""
    for of_this, of_all in _VARIABLES:
        number, count = environ.get(of_this, ""), environ.get(of_all, "")
        if _is_whole(number):
            return Rank(number=int(number), count=int(count) if _is_whole(count) else 1)
    return None


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdigit()

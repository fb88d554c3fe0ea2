"""A few of many points, for curves whose points could not all be seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


def thin(items: Sequence[Item], most: int) -> list[Item]:
    """At most so many, evenly spread, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    if most == 1:
        return [items[-1]]
    last = len(items) - 1
    return [items[round(index * last / (most - 1))] for index in range(most)]

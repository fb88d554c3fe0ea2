"""One check of the contract. Adding one is writing one function in the file of its group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from stoker.conformance.lab import Lab

Group = Literal["entry", "input", "running", "output", "hygiene"]
Tried = Callable[["Lab"], str]
"""Tries the image; returns what was seen. Raises `Failed` or `NotApplicable`."""

DEFAULT_LIMIT_SECONDS = 90.0


class Failed(Exception):
    """The image breaks the contract; the text says what was seen."""


class NotApplicable(Exception):
    """The contract asks nothing of this image here; the text says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """A point of the contract and how it is tried."""

    number: int
    group: Group
    title: str
    contract: str
    """What the contract says."""
    source: str
    """Who says it: guide, API, toolkit, SDK v3, seen, or our choice."""
    how: str
    """How it is tried."""
    fix: str
    """What to do about an image that fails."""
    tried: Tried
    both_ways: bool = False
    """Run without and with an init as PID 1: the service has been seen with both."""
    limit_seconds: float = DEFAULT_LIMIT_SECONDS


CHECKS: dict[int, Check] = {}
"""Every check by its number, filled by the modules of the groups when they are imported."""


def check(
    number: int,
    title: str,
    *,
    group: Group,
    contract: str,
    source: str,
    how: str,
    fix: str,
    both_ways: bool = False,
    limit_seconds: float = DEFAULT_LIMIT_SECONDS,
) -> Callable[[Tried], Tried]:
    """Makes a check of a function.

    Raises:
        ValueError: the number is taken.
    """

    def register(tried: Tried) -> Tried:
        if number in CHECKS:
            raise ValueError(f"check {number} is there already: {CHECKS[number].title}")
        CHECKS[number] = Check(
            number=number,
            group=group,
            title=title,
            contract=contract,
            source=source,
            how=how,
            fix=fix,
            tried=tried,
            both_ways=both_ways,
            limit_seconds=limit_seconds,
        )
        return tried

    return register


def require(holds: bool, seen: str) -> None:
    """Fails the check with what was seen unless the condition holds."""
    if not holds:
        raise Failed(seen)

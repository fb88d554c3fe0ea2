"""One conclusion: what costs time, why we think so, and what to try."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.bus.progress import show_elapsed
from stoker.report.figures.bill import Bill

LEAST_SHARE = 0.05
"""Of the job."""
LARGE_SHARE = 0.3
"""Of the training itself: a trial of a minute is mostly start, the job that follows it is not."""
LEAST_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True, slots=True)
class Insight:
    """A conclusion with its evidence."""

    key: str
    """One word, for programs and tests: `data`, `skew`, `memory`."""
    title: str
    """What is wrong, in a sentence with its figures."""
    change: str
    """What to do."""
    lost_seconds: float
    """That it costs, of the whole job."""
    share: float
    """The same, of the job's time: 0 to 1."""
    saving_seconds: float | None = None
    """Expected; None where that has to be tried."""
    evidence: tuple[str, ...] = ()
    trials: tuple[str, ...] = ()
    """Experiments of `stoker advise` that would prove it: `workers`, `threads`, …"""
    is_danger: bool = False
    """The job will not survive it."""


def is_small(bill: Bill, lost_seconds: float) -> bool:
    """Whether it costs too little to be worth a change."""
    return lost_seconds < LEAST_SECONDS or (
        lost_seconds < LEAST_SHARE * bill.total_seconds
        and lost_seconds < LARGE_SHARE * bill.training_seconds
    )


def show_seconds(seconds: float) -> str:
    """`0.42 ms`, `3.1 s`, `12 min 05 s`."""
    if seconds >= 60:
        return show_elapsed(seconds)
    if seconds >= 0.9995 or seconds == 0:  # else rounding would make it 1e+03 ms
        return f"{seconds:.1f} s"
    if seconds >= 0.0009995:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds * 1e6:.0f} µs"


def show_share(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.0995 or share == 0 else f"{100 * share:.1f} %"

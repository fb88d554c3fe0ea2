"""What a training job costs: instances × seconds × price, and what spot machines save."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker.cost.price import Price, find_price


@dataclass(frozen=True, kw_only=True, slots=True)
class Machines:
    """The instances of a job: one group of equal ones, or several of a mixed cluster."""

    prices: Mapping[str, Price]
    counts: Mapping[str, int]
    """Instance type → how many of them."""

    @property
    def missing(self) -> list[str]:
        """Instance types whose price no table has: with any, there is no figure."""
        return sorted(set(self.counts) - set(self.prices))

    @property
    def usd_per_hour(self) -> float | None:
        """What all instances cost in an hour; None if one of the prices is missing."""
        if self.missing:
            return None
        return sum(self.prices[kind].usd_per_hour * n for kind, n in self.counts.items())

    def cost_of(self, seconds: float) -> float | None:
        """US dollars for so many seconds of all instances; None if a price is missing."""
        rate = self.usd_per_hour
        return None if rate is None else rate / 3600 * seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Bill:
    """What a job cost, from the figures of DescribeTrainingJob."""

    machines: Machines
    training_seconds: float
    billable_seconds: float
    """Of one instance, as BillableTimeInSeconds is; spot's discount is in it."""
    warm_pool_seconds: float = 0.0
    """ResourceRetainedBillableTimeInSeconds: how long the machines waited for the next job."""

    @property
    def usd(self) -> float | None:
        """US dollars for the time in which the job ran; None if a price is missing."""
        return self.machines.cost_of(self.billable_seconds)

    @property
    def warm_pool_usd(self) -> float | None:
        """US dollars for the time in which the machines waited."""
        return self.machines.cost_of(self.warm_pool_seconds)

    @property
    def spot_saving(self) -> float:
        """The part of the on-demand price that spot machines saved: 0.7 is 70 %."""
        return spot_saving(self.training_seconds, self.billable_seconds)


def find_machines(
    counts: Mapping[str, int], region: str, *, tables: Sequence[Path] | None = None
) -> Machines:
    """The instances of a job with the prices that are known in a region."""
    found = {kind: find_price(kind, region, tables=tables) for kind in counts}
    known = {kind: price for kind, price in found.items() if price is not None}
    return Machines(prices=known, counts=dict(counts))


def spot_saving(training_seconds: float, billable_seconds: float) -> float:
    """The part of the training time that is not billed; 0 for jobs on demand.

    Example:
        >>> spot_saving(1000, 300)
        0.7
    """
    if training_seconds <= 0:
        return 0.0
    return max(0.0, 1 - billable_seconds / training_seconds)


def show_usd(usd: float) -> str:
    """An amount to read: cents, and more digits below ten cents.

    Example:
        >>> show_usd(1234.5), show_usd(0.00123)
        ('$1,234.50', '$0.0012')
    """
    return f"${usd:,.2f}" if usd >= 0.1 or usd == 0 else f"${usd:.4f}"

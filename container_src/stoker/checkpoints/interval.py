"""When to save: every so many steps or minutes, or as often as pays."""

from __future__ import annotations

import math
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

MEAN_HOURS_BETWEEN_INTERRUPTIONS = 2.0
"""Assumed for "auto": the lower half of what public traces of AWS spot instances show."""
# Bounds of "auto": saves do not follow one another without a pause, and at most an hour is lost.
_SHORTEST_SECONDS = 30.0
_LONGEST_SECONDS = 3600.0  # the most that an interruption may cost, however rare it is
_FIRST_SECONDS = 60.0


def young_interval(save_cost_seconds: float, mean_up_seconds: float) -> float:
    """Young's interval √(2·C·M) in seconds: more saves cost more than they spare, fewer lose more.

    J. W. Young, "A first order approximation to the optimum checkpoint interval" (1974).

    Example:
        >>> young_interval(30, 2 * 3600) / 60   # about 11 minutes
        10.954451150103322
    """
    return math.sqrt(2 * save_cost_seconds * mean_up_seconds)


class Schedule:
    """Whether a checkpoint is due."""

    def __init__(
        self,
        *,
        steps: int | None = None,
        minutes: float | Literal["auto"] | None = None,
        mean_hours: float = MEAN_HOURS_BETWEEN_INTERRUPTIONS,
    ) -> None:
        given = [number for number in (steps, minutes) if isinstance(number, int | float)]
        if any(number <= 0 for number in given) or not (given or minutes == "auto"):
            raise ValueError(f"steps or minutes must be positive, but got {steps=}, {minutes=}")
        self._steps = steps
        self._is_auto = minutes == "auto"
        self._mean_seconds = 3600 * mean_hours
        self.interval_seconds = math.inf
        if self._is_auto:
            self.interval_seconds = _FIRST_SECONDS  # the first save tells what one costs
        elif minutes is not None and not isinstance(minutes, str):
            self.interval_seconds = 60.0 * minutes
        self._told_seconds = 0.0
        self._saved_at = time.monotonic()

    def is_due_at(self, step: int) -> bool:
        """By the number of steps: the same on all ranks."""
        return self._steps is not None and step % self._steps == 0

    def is_time(self) -> bool:
        """By this process's clock."""
        return time.monotonic() - self._saved_at >= self.interval_seconds

    def saved(self) -> None:
        """A save begins: time counts from here."""
        self._saved_at = time.monotonic()

    def learn(self, save_seconds: float) -> str:
        """Takes a measured save into account. Returns what to tell, if anything changed much."""
        if not self._is_auto:
            return ""
        # The time until durable is more than the loop can lose: the rest runs in parallel.
        best = young_interval(save_seconds, self._mean_seconds)
        self.interval_seconds = min(max(best, _SHORTEST_SECONDS), _LONGEST_SECONDS)
        if self._told_seconds / 2 < self.interval_seconds < self._told_seconds * 2:
            return ""
        self._told_seconds = self.interval_seconds
        return (
            f"saving every {self.interval_seconds / 60:.1f} min: a save takes {save_seconds:.1f} "
            f"s, and one interruption in {self._mean_seconds / 3600:g} h is assumed (Young/Daly)"
        )

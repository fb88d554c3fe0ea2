"""A study (a search) and its trials, as values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from stoker.tuning.space import SearchSpace


class Strategy(StrEnum):
    """How the next trial is chosen, as the API spells it."""

    BAYESIAN = "Bayesian"
    RANDOM = "Random"
    HYPERBAND = "Hyperband"
    GRID = "Grid"


class Goal(StrEnum):
    """Which values of the objective are better, as the API spells it."""

    MAXIMIZE = "Maximize"
    MINIMIZE = "Minimize"

    def cost(self, value: float) -> float:
        """The value as a number of which less is better."""
        return -value if self is Goal.MAXIMIZE else value


class TrialState(StrEnum):
    """What became of a trial so far."""

    RUNNING = "Running"
    PAUSED = "Paused"
    COMPLETED = "Completed"
    STOPPED = "Stopped"
    FAILED = "Failed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """One try of a study."""

    number: int
    """Position in the study, from 1."""

    parameters: Mapping[str, str]
    """The tuned hyperparameters."""

    state: TrialState = TrialState.RUNNING

    curve: tuple[float, ...] = ()
    """The objective as it was reported: one value for each unit of resource (epoch)."""

    objective: float | None = None
    """The final objective of a trial that ended; None while it runs, or if it has none."""

    parent: int = 0
    """0: a trial of this study; n: one of its n-th parent, whose values may have another scale."""

    @property
    def value(self) -> float | None:
        """The objective as far as it is known and a number: the final one, else the latest."""
        latest = self.objective
        if latest is None and self.curve:
            latest = self.curve[-1]
        return latest if latest is not None and math.isfinite(latest) else None

    @property
    def is_pending(self) -> bool:
        """Whether its final objective is still to come."""
        return self.state in (TrialState.RUNNING, TrialState.PAUSED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Study:
    """What is searched, and how."""

    space: SearchSpace
    goal: Goal
    strategy: Strategy = Strategy.BAYESIAN
    seed: int = 0
    earlier: tuple[Trial, ...] = field(default=())
    """Trials of parent studies (warm start); see `warm_start`."""


def find_best(goal: Goal, trials: Sequence[Trial]) -> Trial | None:
    """The trial with the best final objective; the first of equals."""
    ended = [t for t in trials if t.objective is not None and math.isfinite(t.objective)]
    return min(ended, key=lambda t: (goal.cost(t.objective or 0.0), t.number), default=None)

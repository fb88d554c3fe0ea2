"""When a study is complete. Its time limit needs a clock, and is not checked here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from stoker.tuning.study import Goal

IMPROVEMENT = 0.01
"""A better value counts as an improvement from this share of the best on (the service's 1 %)."""
# The service does not publish how it detects convergence.
_FEWEST_TO_CONVERGE = 10
_TRIALS_FOR_EACH_PARAMETER = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class CompletionCriteria:
    """What ends a study; None and False switch a criterion off."""

    max_trials: int | None = None
    target: float | None = None
    max_not_improving: int | None = None
    on_convergence: bool = False


class CompletionReason(StrEnum):
    """Which criterion was met."""

    MAX_TRIALS = "the maximum number of training jobs was reached"
    TARGET = "the target value of the objective was reached"
    NOT_IMPROVING = "the objective stopped improving"
    CONVERGED = "the search converged"


def find_completion(
    criteria: CompletionCriteria,
    goal: Goal,
    objectives: Sequence[float | None],
    *,
    parameters: int,
) -> CompletionReason | None:
    """The first criterion that is met, if any.

    Args:
        criteria: what was asked for.
        goal: which values are better.
        objectives: of the trials that ended, in the order of their ends; None without an
            objective.
        parameters: how many hyperparameters are tuned.
    """
    costs = [goal.cost(o) for o in objectives if o is not None and math.isfinite(o)]
    target = criteria.target
    if target is not None and costs and min(costs) <= goal.cost(target):
        return CompletionReason.TARGET
    if criteria.max_trials is not None and len(objectives) >= criteria.max_trials:
        return CompletionReason.MAX_TRIALS
    idle = count_not_improving(goal, objectives)
    if criteria.max_not_improving is not None and idle >= criteria.max_not_improving:
        return CompletionReason.NOT_IMPROVING
    enough = max(_FEWEST_TO_CONVERGE, _TRIALS_FOR_EACH_PARAMETER * parameters)
    if criteria.on_convergence and costs and idle >= enough:
        return CompletionReason.CONVERGED
    return None


def count_not_improving(goal: Goal, objectives: Sequence[float | None]) -> int:
    """How many of the latest trials did not improve the best objective by 1 % or more."""
    best, idle = math.inf, 0
    for objective in objectives:
        cost = math.inf if objective is None else goal.cost(objective)
        if not math.isfinite(cost):
            idle += 1
        elif best == math.inf or (cost < best and best - cost >= IMPROVEMENT * abs(best)):
            best, idle = cost, 0
        else:
            idle += 1
    return idle

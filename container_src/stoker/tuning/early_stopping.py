"""The service's median rule: `TrainingJobEarlyStoppingType: Auto`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from stoker.tuning.study import Goal

# The service derives its own minimum from finished jobs and does not publish it.
FEWEST_TRIALS = 3
FEWEST_VALUES = 2


def should_stop(goal: Goal, curve: Sequence[float], earlier: Sequence[Sequence[float]]) -> bool:
    """Whether a running trial should stop after its latest value.

    The latest value is compared with the median, over all earlier trials that reported at least
    as many values, of the average of their values up to the same epoch.

    Args:
        goal: which values are better.
        curve: what the trial reported, one value for each epoch.
        earlier: the same of all trials that started earlier, stopped ones included.
    """
    epoch = len(curve)
    peers = [peer for peer in earlier if len(peer) >= epoch]
    if epoch < FEWEST_VALUES or len(peers) < FEWEST_TRIALS:
        return False
    averages = [_worst_if_nan(goal.cost(sum(peer[:epoch]) / epoch)) for peer in peers]
    return _worst_if_nan(goal.cost(curve[-1])) > median(averages)


def _worst_if_nan(cost: float) -> float:
    return math.inf if math.isnan(cost) else cost

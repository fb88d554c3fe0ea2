"""How often to save, from what a save costs and how often one is needed.

J. W. Young, "A first order approximation to the optimum checkpoint interval" (1974);
J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps" (2006).
"""

from __future__ import annotations

import math

from stoker.checkpoints.interval import young_interval


def daly_interval(save_cost_seconds: float, mean_up_seconds: float) -> float:
    """Daly's interval between saves, in seconds of work: exact to a higher order.

    Example:
        >>> round(daly_interval(30, 2 * 3600))
        638
    """
    if save_cost_seconds >= 2 * mean_up_seconds:
        return mean_up_seconds
    ratio = math.sqrt(save_cost_seconds / (2 * mean_up_seconds))
    correction = 1 + ratio / 3 + ratio**2 / 9
    return young_interval(save_cost_seconds, mean_up_seconds) * correction - save_cost_seconds

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


def expected_seconds(
    work_seconds: float,
    *,
    interval_seconds: float,
    save_cost_seconds: float,
    restart_cost_seconds: float,
    mean_up_seconds: float,
    mean_down_seconds: float,
) -> float:
    """The expected time to finish under interruptions without memory, in closed form.

    To get through a stretch of `w` seconds that an interruption undoes takes on average
    `(1/λ + D) · (e^λw - 1)` seconds, and `e^λR` times as many when each new try is
    preceded by a restart of `R` seconds that may be interrupted, too.
    """
    rate = 1 / mean_up_seconds
    each_try = mean_up_seconds + mean_down_seconds
    saves = max(math.ceil(work_seconds / interval_seconds - 1e-9) - 1, 0)
    last = work_seconds - saves * interval_seconds
    stretches = saves * math.expm1(rate * (interval_seconds + save_cost_seconds))
    stretches += math.expm1(rate * last)  # nothing is saved after the last step
    start = math.expm1(rate * restart_cost_seconds)
    return each_try * (start + math.exp(rate * restart_cost_seconds) * stretches)

"""What to change: conclusions with their evidence, the most expensive first."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.report.figures.bill import Bill
from stoker.report.figures.run import Run
from stoker.report.insights.data import find_data_wait, find_epoch_start, find_transfer
from stoker.report.insights.insight import Insight
from stoker.report.insights.machine import (
    find_idle_devices,
    find_low_cpu,
    find_memory_growth,
    find_threads,
)
from stoker.report.insights.other_work import find_idle, find_other_work
from stoker.report.insights.steps import (
    find_checkpoints,
    find_evaluation,
    find_logging,
    find_preparation,
    find_skew,
    find_small_batch,
)

__all__ = ["Insight", "find_insights"]

_FINDERS = (
    *(find_data_wait, find_epoch_start, find_transfer, find_skew, find_checkpoints, find_logging),
    *(find_evaluation, find_other_work, find_idle, find_small_batch, find_threads),
    *(find_memory_growth, find_preparation, find_idle_devices, find_low_cpu),
)


def find_insights(run: Run, bill: Bill) -> Sequence[Insight]:
    """All that apply. What ends the job soon comes first, then what costs most."""
    found = [insight for find in _FINDERS if (insight := find(run, bill)) is not None]
    return sorted(found, key=lambda one: (not one.is_danger, -one.lost_seconds))

"""What `preset="quick"` changes, so that a job of some hundred steps is judged at all.

By default tensors are saved every 500 steps: a job of 400 steps saves step 0 only, and no rule
that compares steps can ever fire.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stoker.debugging.need import Need

QUICK_INTERVAL = 10
"""Every how many steps a quick rule has its tensors saved."""

QUICK_LOSS_INTERVAL = 1
"""A loss is one number: it is saved at each step."""

# It counts steps in which anything was saved, so all it needs is saved at the same ones.
QUICK_INTERVALS: Mapping[str, int] = {"PoorWeightInitialization": 5}

# Settings that count steps, samples or seconds for a job of days. What the user sets wins.
QUICK_PARAMETERS: Mapping[str, Mapping[str, str]] = {
    "CheckInputImages": {"threshold_samples": "100"},
    "ClassImbalance": {"samples": "100"},
    # Of losses at each step, which go up and down by chance: five would be a false alarm.
    "Overtraining": {"patience_train": "30"},
    "StalledTrainingRule": {"threshold": "300"},
}


def quicken_parameters(rule: str, parameters: Mapping[str, str]) -> dict[str, str]:
    """The rule's settings in a short job."""
    return {**QUICK_PARAMETERS.get(rule, {}), **parameters}


def quicken_needs(rule: str, needs: Sequence[Need]) -> list[Need]:
    """The same needs, saved often; an interval that a rule asks for itself stays."""
    return [
        need
        if need.save_interval is not None
        else need.replace(save_interval=QUICK_INTERVALS.get(rule) or _interval(need))
        for need in needs
    ]


def _interval(need: Need) -> int:
    is_loss = need.is_by_collection and need.collection in ("losses", "scalars")
    return QUICK_LOSS_INTERVAL if is_loss else QUICK_INTERVAL

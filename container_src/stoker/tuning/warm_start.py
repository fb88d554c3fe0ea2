"""Warm start: what a study takes over from the trials of its parents."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum

from stoker.tuning.study import Goal, Trial


class WarmStart(StrEnum):
    """What a study has in common with its parents, as the API spells it."""

    IDENTICAL = "IdenticalDataAndAlgorithm"
    """The same training: the parents' objectives count as if they were of this study."""

    TRANSFER = "TransferLearning"
    """Other data or another algorithm: the parents only show which values were good there."""


def make_earlier(kind: WarmStart, parents: Sequence[Sequence[Trial]]) -> tuple[Trial, ...]:
    """The trials of the parents, as `Study.earlier` takes them; one sequence for each parent."""
    return tuple(
        replace(trial, parent=index if kind is WarmStart.TRANSFER else 0)
        for index, trials in enumerate(parents, start=1)
        for trial in trials
        if not trial.is_pending and trial.objective is not None
    )


def find_parent_mistakes(
    name: str,
    *,
    metric: str,
    goal: Goal,
    names: Collection[str],
    parent_metric: str,
    parent_goal: Goal,
    parent_names: Collection[str],
) -> Iterator[str]:
    """Why the study `name` cannot be a parent; names are static and tuned hyperparameters."""
    if (metric, goal) != (parent_metric, parent_goal):
        yield (
            f"Parent tuning job '{name}' has the objective {parent_goal} {parent_metric}, but this"
            f" tuning job has {goal} {metric}. Use the same objective, or another parent."
        )
    if missing := sorted(set(parent_names) - set(names)):
        yield (
            f"Parent tuning job '{name}' has hyperparameters that this tuning job does not have:"
            f" {', '.join(missing)}. Add them as static or tunable hyperparameters."
        )
    if added := sorted(set(names) - set(parent_names)):
        yield (
            f"This tuning job has hyperparameters that parent tuning job '{name}' does not have:"
            f" {', '.join(added)}. Remove them, or use another parent."
        )

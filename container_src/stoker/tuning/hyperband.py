"""Hyperband as successive halving without waiting (ASHA), as pure decisions on learning curves.

Rungs are numbers of epochs. At each rung a trial is compared with all trials that have been there.
With checkpoints a trial that loses is paused, and promoted when later results put it among the
best; without checkpoints it is stopped for good.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from stoker.tuning.study import Goal, Trial, TrialState

FACTOR = 3
"""Of the trials at a rung, one in so many is promoted (the service does not publish its own)."""

MOST_RESOURCE = 20_000
_EPOCHS = ("epochs", "numepochs", "n-epochs", "n_epochs", "num_epochs")


@dataclass(frozen=True, kw_only=True, slots=True)
class Hyperband:
    """The resource of a trial, in epochs: values of the objective that it reports."""

    max_resource: int
    min_resource: int = 1

    @property
    def rungs(self) -> tuple[int, ...]:
        """The numbers of epochs at which trials are compared."""
        rungs = [self.min_resource]
        while rungs[-1] * FACTOR < self.max_resource:
            rungs.append(rungs[-1] * FACTOR)
        return tuple(rung for rung in rungs if rung < self.max_resource)


def find_hyperband_mistakes(min_resource: int | None, max_resource: int | None) -> Iterator[str]:
    """What the service refuses in the resources; `max_resource` given or inferred."""
    if max_resource is None:
        yield (
            "MaxResource parameter is not provided and could not be inferred from provided static"
            " hyperparameters of TrainingJobDefinition. Give HyperbandStrategyConfig its"
            f" MaxResource, or pass one of the hyperparameters {', '.join(_EPOCHS)}."
        )
    elif not 1 <= (min_resource or 1) <= max_resource <= MOST_RESOURCE:
        yield (
            f"MinResource and MaxResource must be 1 to {MOST_RESOURCE} with MinResource at most"
            f" MaxResource, but they are {min_resource or 1} and {max_resource}."
        )


def infer_max_resource(static: Mapping[str, str]) -> int | None:
    """The number of epochs that the static hyperparameters name, if one does."""
    for name in _EPOCHS:
        # SDK v2 puts JSON quotes around numbers as well.
        text = static.get(name, "").strip('"')
        if text.isdecimal():
            return int(text)
    return None


class Verdict(StrEnum):
    """What happens to a running trial."""

    CONTINUE = "continue"
    PAUSE = "pause"
    STOP = "stop"
    COMPLETE = "complete"
    """It has used all the resource a trial may have."""


def decide(
    hyperband: Hyperband,
    goal: Goal,
    trial: Trial,
    trials: Sequence[Trial],
    *,
    can_resume: bool,
    decided: int = 0,
) -> Verdict:
    """What happens to a running trial after its latest values.

    Args:
        hyperband: the rungs.
        goal: which values are better.
        trial: the one to decide on.
        trials: all trials of the study; whether `trial` is among them does not matter.
        can_resume: whether a stopped trial can continue later from a checkpoint.
        decided: how many values of the trial were decided on before; a rung counts once.
    """
    if len(trial.curve) >= hyperband.max_resource:
        return Verdict.COMPLETE
    reached = [rung for rung in hyperband.rungs if decided < rung <= len(trial.curve)]
    if not reached:
        return Verdict.CONTINUE
    others = [other for other in trials if other.number != trial.number]
    ranking = _rank(goal, [*others, trial], reached[-1])
    # With a second chance, nothing is lost by waiting for the first others to compare with.
    is_first = len(ranking) < FACTOR and not can_resume
    if is_first or trial.number in ranking[: len(ranking) // FACTOR]:
        return Verdict.CONTINUE
    return Verdict.PAUSE if can_resume else Verdict.STOP


def choose_promotion(
    hyperband: Hyperband, goal: Goal, trials: Sequence[Trial], *, is_last_call: bool = False
) -> int | None:
    """The number of the paused trial that should continue in a free place, if there is one.

    Args:
        hyperband: the rungs.
        goal: which values are better.
        trials: all trials of the study.
        is_last_call: no trial runs and no new one will start. The best of the highest rung then
            continues to the end, so that a search ends with a trial that was trained in full.
    """
    paused = {trial.number for trial in trials if trial.state is TrialState.PAUSED}
    resources = {trial.number: len(trial.curve) for trial in trials}
    for rung in reversed(hyperband.rungs):
        ranking = _rank(goal, trials, rung)
        for number in ranking[: len(ranking) // FACTOR]:
            if number in paused and _highest(hyperband, resources[number]) == rung:
                return number
    is_trained = any(resource >= hyperband.max_resource for resource in resources.values())
    if not is_last_call or is_trained or not paused:
        return None
    top = max(_highest(hyperband, resources[number]) for number in paused)
    return next((number for number in _rank(goal, trials, top) if number in paused), None)


def _rank(goal: Goal, trials: Sequence[Trial], rung: int) -> list[int]:
    """The trials that reached a rung, best first by the value they had there."""
    there = [(goal.cost(t.curve[rung - 1]), t.number) for t in trials if len(t.curve) >= rung]
    return [number for _, number in sorted((_last_if_nan(cost), n) for cost, n in there)]


def _last_if_nan(cost: float) -> float:
    return math.inf if math.isnan(cost) else cost


def _highest(hyperband: Hyperband, resource: int) -> int:
    return max((rung for rung in hyperband.rungs if rung <= resource), default=0)

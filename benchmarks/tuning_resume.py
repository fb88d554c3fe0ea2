"""Epochs of a Hyperband search that pauses and resumes trials, compared with one that stops them.

Usage: python benchmarks/tuning_resume.py [--seeds 10] [--parallel 4] [--json]

27 trials of a real training (a network of one hidden layer on two spirals, in NumPy), each up to
27 epochs. Both searches try the same hyperparameters and use the decisions of `stoker.tuning`; a
trial that is resumed continues with the weights it had. The second figure holds the first one
honest: the best objective must be the same.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from figures import Figure, run, say
from stoker.tuning.hyperband import Hyperband, Verdict, choose_promotion, decide
from stoker.tuning.parameters import Continuous, Integer, Scaling
from stoker.tuning.search import suggest
from stoker.tuning.space import SearchSpace
from stoker.tuning.study import Goal, Strategy, Study, Trial, TrialState

TRIALS, EPOCHS = 27, 27
GOAL = 0.8
BANDS = Hyperband(min_resource=1, max_resource=EPOCHS)
SPACE = SearchSpace(
    parameters=(
        Continuous(name="lr", low=1e-3, high=3.0, scaling=Scaling.LOGARITHMIC),
        Continuous(name="momentum", low=0.0, high=0.98, scaling=Scaling.REVERSE_LOGARITHMIC),
        Continuous(name="decay", low=1e-6, high=1e-1, scaling=Scaling.LOGARITHMIC),
        Integer(name="width", low=4, high=128, scaling=Scaling.LOGARITHMIC),
    )
)


def main() -> int:
    parser = argparse.ArgumentParser(description="Second chances in Hyperband.")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--parallel", type=int, default=4)
    return run(measure, parser, peer="stop-only")


def measure(args: argparse.Namespace) -> list[Figure]:
    """Medians over seeds: epochs trained, and the best error on held-out data."""
    resumed, stopped = [], []
    for seed in range(args.seeds):
        resumed.append(run_search(seed, parallel=args.parallel, can_resume=True))
        stopped.append(run_search(seed, parallel=args.parallel, can_resume=False))
        ours, peer = resumed[-1], stopped[-1]
        seen = [f"{each.epochs} epochs to {each.best:.4f}" for each in (ours, peer)]
        say(f"seed {seed}: {seen[0]}, stop-only {seen[1]}")
    wins = sum(a.best <= b.best for a, b in zip(resumed, stopped, strict=True))
    return [
        Figure(
            name="epochs of 27 trials",
            ours=statistics.median(each.epochs for each in resumed),
            peer=statistics.median(each.epochs for each in stopped),
            unit="epochs",
            goal=GOAL,
        ),
        Figure(
            name="best loss on held-out data",
            ours=statistics.median(each.best for each in resumed),
            peer=statistics.median(each.best for each in stopped),
            unit="",
            goal=1.0,
            note=f"as good or better in {wins} of {args.seeds} searches",
        ),
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """What a search used, and what it reached."""

    epochs: int
    best: float


def run_search(seed: int, *, parallel: int, can_resume: bool) -> Ended:
    """A whole search; in each turn every running trial trains one epoch."""
    study = Study(space=SPACE, goal=Goal.MINIMIZE, strategy=Strategy.HYPERBAND, seed=seed)
    trials: dict[int, Trial] = {}
    trainings: dict[int, Iterator[float]] = {}  # a paused one keeps its state, as a checkpoint
    epochs = 0
    while True:
        running = [t.number for t in trials.values() if t.state is TrialState.RUNNING]
        while len(running) < parallel:
            number = _choose_next(study, trials, can_resume, is_idle=not running)
            if number is None:
                break
            if number not in trainings:
                values = suggest(study, number, list(trials.values())) or {}
                trials[number] = Trial(number=number, parameters=values)
                trainings[number] = train(values, seed=number)
            trials[number] = replace(trials[number], state=TrialState.RUNNING)
            running.append(number)
        if not running:
            return Ended(epochs=epochs, best=min(t.curve[-1] for t in trials.values()))
        for number in running:
            epochs += 1
            before = trials[number].curve
            trial = replace(trials[number], curve=(*before, next(trainings[number])))
            trials[number] = replace(trial, state=_decide(trial, trials, can_resume))


def _choose_next(
    study: Study, trials: Mapping[int, Trial], can_resume: bool, *, is_idle: bool
) -> int | None:
    if can_resume:
        is_last_call = is_idle and len(trials) == TRIALS
        known = list(trials.values())
        promoted = choose_promotion(BANDS, study.goal, known, is_last_call=is_last_call)
        if promoted is not None:
            return promoted
    return len(trials) + 1 if len(trials) < TRIALS else None


def _decide(trial: Trial, trials: Mapping[int, Trial], can_resume: bool) -> TrialState:
    decided = len(trial.curve) - 1
    known = list(trials.values())
    verdict = decide(BANDS, Goal.MINIMIZE, trial, known, can_resume=can_resume, decided=decided)
    return {
        Verdict.CONTINUE: TrialState.RUNNING,
        Verdict.PAUSE: TrialState.PAUSED,
        Verdict.STOP: TrialState.STOPPED,
        Verdict.COMPLETE: TrialState.COMPLETED,
    }[verdict]


def train(values: Mapping[str, str], *, seed: int) -> Iterator[float]:
    """Yields the loss on held-out data after each epoch."""
    source = np.random.default_rng([seed, 2])
    points, labels = _make_spirals(600)
    width, rate = int(values["width"]), float(values["lr"])
    momentum, decay = float(values["momentum"]), float(values["decay"])
    weights = [source.standard_normal((2, width)) * 2, source.standard_normal(width) * 2]
    weights += [source.standard_normal(width) / math.sqrt(width), np.zeros(1)]
    speeds = [np.zeros_like(w) for w in weights]
    while True:
        for batch in source.permutation(400).reshape(-1, 20):
            slopes = _slopes(weights, points[batch], labels[batch])
            for weight, speed, slope in zip(weights, speeds, slopes, strict=True):
                speed *= momentum
                speed -= rate * np.clip(slope + decay * weight, -1e3, 1e3)
                weight += speed
                np.clip(weight, -1e6, 1e6, out=weight)
        logits = np.tanh(points[400:] @ weights[0] + weights[1]) @ weights[2] + weights[3]
        yield float(np.logaddexp(0, -logits * (2 * labels[400:] - 1)).mean())


def _slopes(
    weights: list[np.ndarray], points: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, ...]:
    hidden = np.tanh(points @ weights[0] + weights[1])
    logits = hidden @ weights[2] + weights[3]
    error = (1 / (1 + np.exp(-np.clip(logits, -50, 50))) - labels) / len(labels)
    back = np.outer(error, weights[2]) * (1 - hidden**2)
    return points.T @ back, back.sum(0), hidden.T @ error, error.sum(keepdims=True)


def _make_spirals(count: int) -> tuple[np.ndarray, np.ndarray]:
    source = np.random.default_rng(7)
    labels = source.integers(0, 2, count)
    turn = np.sqrt(source.random(count)) * 2.2 * np.pi
    angle = turn + np.pi * labels
    points = np.column_stack([turn * np.cos(angle), turn * np.sin(angle)]) / (2.2 * np.pi)
    return points * 2 + 0.05 * source.standard_normal((count, 2)), labels.astype(float)


if __name__ == "__main__":
    sys.exit(main())

"""A training job under interruptions, simulated: pure functions of numbers.

A machine comes, the job restarts (`restart_cost`), works in stretches of `interval`, saves after
each (`save_cost`), and loses what it has not saved when the machine is interrupted. The first
start costs as much as a restart. Nothing is saved after the last step: the job is done.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, cycle, islice
from statistics import fmean

from stoker.checkpoints.interval import young_interval
from stoker.platform.jobs.spot_trace import Stay, Trace

Stays = Callable[[int], Iterator[Stay]]
"""The stays of run number N: the same for each interval, so that intervals are compared fairly."""

_MAX_STAYS = 10_000  # a run that was interrupted so often will not finish


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """What the job has to do."""

    steps: int
    """Optimizer steps in all."""

    step_seconds: float
    """The time of one."""

    save_cost_seconds: float
    """The time the loop loses by one checkpoint."""

    restart_cost_seconds: float
    """From the start of a machine until the loop continues: image, data, restore."""

    @property
    def seconds(self) -> float:
        """The time the steps alone take."""
        return self.steps * self.step_seconds

    def steps_between_saves(self, interval_seconds: float) -> int:
        """How many whole steps come closest to an interval; at least one."""
        return min(max(round(interval_seconds / self.step_seconds), 1), self.steps)


@dataclass(kw_only=True, slots=True)
class Run:
    """One simulated training: where its time went, so far."""

    finish_seconds: float = 0.0
    """On the clock, the waits for machines included; infinite if it never finished."""

    billed_seconds: float = 0.0
    """With a machine."""

    lost_seconds: float = 0.0
    """Work, and saves cut short, that an interruption undid."""

    saving_seconds: float = 0.0
    """Spent on checkpoints that were completed."""

    restart_seconds: float = 0.0
    """Spent on starts and restarts."""

    saved_steps: int = 0
    """Steps that no interruption can undo."""

    interruptions: int = 0
    """How often the machine was interrupted."""

    def use(self, stay: Stay, work: Work, *, every_steps: int) -> bool:
        """Work on one machine until it goes or the last step is done; tells which."""
        steps_left = work.steps - self.saved_steps
        saves_left = math.ceil(steps_left / every_steps) - 1
        to_go = steps_left * work.step_seconds + saves_left * work.save_cost_seconds
        restart = min(stay.up_seconds, work.restart_cost_seconds)
        working = stay.up_seconds - restart
        done = working >= to_go and restart >= work.restart_cost_seconds
        stretch = every_steps * work.step_seconds + work.save_cost_seconds
        # Not above what is left: rounding must not add a save after the last step.
        saves = saves_left if done else min(int(working / stretch), saves_left)
        self.saved_steps += saves * every_steps
        self.saving_seconds += saves * work.save_cost_seconds
        self.restart_seconds += restart
        self.lost_seconds += 0.0 if done else working - saves * stretch
        self.billed_seconds += restart + (to_go if done else working)
        self.finish_seconds += restart + to_go if done else stay.up_seconds + stay.down_seconds
        self.interruptions += 0 if done else 1
        return done


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast:
    """What to expect of one interval, over many runs."""

    interval_seconds: float
    """Between two saves: a whole number of steps."""

    finish_seconds: float
    """Expected; infinite if any run never finished."""

    finish_90_seconds: float
    """Nine runs of ten finish by then."""

    billed_seconds: float
    """Expected time with a machine."""

    lost_seconds: float
    """Expected loss by interruptions."""

    saving_seconds: float
    """Expected time spent on checkpoints."""

    restart_seconds: float
    """Expected time spent on starts."""

    interruptions: float
    """Expected number."""


def forecast(
    work: Work, *, intervals_seconds: Sequence[float], stays: Stays, runs: int
) -> list[Forecast]:
    """What to expect of each interval, over the same runs.

    Example:
        >>> work = Work(steps=10_000, step_seconds=1, save_cost_seconds=5,
        ...             restart_cost_seconds=120)
        >>> stays = exponential_stays(mean_up_seconds=7200, mean_down_seconds=1440, seed=0)
        >>> forecasts = forecast(work, intervals_seconds=[60, 300], stays=stays, runs=100)
    """
    chosen = sorted({work.steps_between_saves(seconds) for seconds in intervals_seconds})
    return [_forecast_one(work, every_steps=steps, stays=stays, runs=runs) for steps in chosen]


def simulate(work: Work, *, every_steps: int, stays: Iterator[Stay]) -> Run:
    """Walk through the stays of machines until the last step is done, saving every few steps."""
    run = Run()
    for stay in islice(stays, _MAX_STAYS):
        if stay.up_seconds <= 0:
            run.finish_seconds += stay.down_seconds
        elif run.use(stay, work, every_steps=every_steps):
            return run
    run.finish_seconds = run.billed_seconds = math.inf
    return run


def exponential_stays(*, mean_up_seconds: float, mean_down_seconds: float, seed: int) -> Stays:
    """Interruptions without memory (exponential), as in textbooks."""

    def stays(number: int) -> Iterator[Stay]:
        chance = _chance(seed, number)
        while True:
            up = chance.expovariate(1 / mean_up_seconds)
            down = chance.expovariate(1 / mean_down_seconds) if mean_down_seconds else 0.0
            yield Stay(up_seconds=up, down_seconds=down)

    return stays


def trace_stays(trace: Trace, *, seed: int) -> Stays:
    """The recorded stays, begun at a moment that chance picks, over and over."""
    recorded = trace.around()
    ends = list(accumulate(stay.up_seconds + stay.down_seconds for stay in recorded))

    def stays(number: int) -> Iterator[Stay]:
        moment = _chance(seed, number).uniform(0, ends[-1])
        first = min(bisect_right(ends, moment), len(recorded) - 1)
        passed = moment - (ends[first - 1] if first else 0.0)
        stay = recorded[first]
        yield Stay(
            up_seconds=max(stay.up_seconds - passed, 0.0),
            down_seconds=stay.down_seconds - max(passed - stay.up_seconds, 0.0),
        )
        yield from cycle((*recorded[first + 1 :], *recorded[: first + 1]))

    return stays


def _chance(seed: int, number: int) -> random.Random:
    return random.Random(f"{seed}/{number}")  # noqa: S311 - no secret depends on it


def _forecast_one(work: Work, *, every_steps: int, stays: Stays, runs: int) -> Forecast:
    done: list[Run] = []
    for number in range(runs):
        done.append(simulate(work, every_steps=every_steps, stays=stays(number)))
        if math.isinf(done[-1].finish_seconds):
            break  # the expected time is infinite, whatever the others do
    finishes = sorted(run.finish_seconds for run in done)
    return Forecast(
        interval_seconds=every_steps * work.step_seconds,
        finish_seconds=fmean(finishes),
        finish_90_seconds=finishes[math.ceil(0.9 * len(finishes)) - 1],
        billed_seconds=fmean(run.billed_seconds for run in done),
        lost_seconds=fmean(run.lost_seconds for run in done),
        saving_seconds=fmean(run.saving_seconds for run in done),
        restart_seconds=fmean(run.restart_seconds for run in done),
        interruptions=fmean(run.interruptions for run in done),
    )


def daly_interval(save_cost_seconds: float, mean_up_seconds: float) -> float:
    """Daly's interval between saves, in seconds of work: exact to a higher order than Young's.

    J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps"
    (2006).

    Example:
        >>> round(daly_interval(30, 2 * 3600))
        638
    """
    if save_cost_seconds >= 2 * mean_up_seconds:
        return mean_up_seconds
    ratio = math.sqrt(save_cost_seconds / (2 * mean_up_seconds))
    correction = 1 + ratio / 3 + ratio**2 / 9
    return young_interval(save_cost_seconds, mean_up_seconds) * correction - save_cost_seconds

"""The simulation against two others: a closed form, and a clumsy walk from second to second."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import chain, islice, repeat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.checkpoints.interval import young_interval
from stoker.cli.spot.simulation import (
    Work,
    daly_interval,
    exponential_stays,
    forecast,
    simulate,
    trace_stays,
)
from stoker.platform.jobs.spot_trace import Stay, Trace

HOUR = 3600.0


def make_work(**changes):
    usual = {
        "steps": 18_000,
        "step_seconds": 1.0,
        "save_cost_seconds": 20.0,
        "restart_cost_seconds": 120.0,
    }
    return Work(**{**usual, **changes})


def expected_seconds(
    work_seconds,
    *,
    interval_seconds,
    save_cost_seconds,
    restart_cost_seconds,
    mean_up_seconds,
    mean_down_seconds,
):
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


@pytest.mark.parametrize("interval_seconds", [100, 300, 1200, 3600])
@pytest.mark.parametrize("restart_cost_seconds", [0.0, 300.0])
def test_the_mean_of_many_runs_is_what_the_closed_form_expects(
    interval_seconds, restart_cost_seconds
):
    work = make_work(restart_cost_seconds=restart_cost_seconds)
    stays = exponential_stays(mean_up_seconds=2 * HOUR, mean_down_seconds=0.4 * HOUR, seed=7)
    [found] = forecast(work, intervals_seconds=[interval_seconds], stays=stays, runs=4000)

    def closed_form(mean_down_seconds):
        return expected_seconds(
            work.seconds,
            interval_seconds=interval_seconds,
            save_cost_seconds=work.save_cost_seconds,
            restart_cost_seconds=restart_cost_seconds,
            mean_up_seconds=2 * HOUR,
            mean_down_seconds=mean_down_seconds,
        )

    assert found.finish_seconds == pytest.approx(closed_form(0.4 * HOUR), rel=0.02)
    assert found.billed_seconds == pytest.approx(closed_form(0), rel=0.02)


def walk_second_by_second(work, every_steps, stays):
    """The same job, told the slow way: one event after the other, in exact numbers."""
    clock = billed = lost = Fraction(0)
    saved = 0
    for stay in stays:
        up = Fraction(stay.up_seconds)
        if not up:
            clock += Fraction(stay.down_seconds)
            continue
        spent, at_risk, step, since = Fraction(work.restart_cost_seconds), Fraction(0), saved, 0
        while spent <= up and step < work.steps:
            if since == every_steps:
                length, what = Fraction(work.save_cost_seconds), "save"
            else:
                length, what = Fraction(work.step_seconds), "step"
            if spent + length > up:
                at_risk += up - spent
                break
            spent += length
            if what == "save":
                saved, since, at_risk = step, 0, Fraction(0)
            else:
                step, since, at_risk = step + 1, since + 1, at_risk + length
        if step == work.steps and spent <= up:
            return float(clock + spent), float(billed + spent), float(lost)
        clock, billed, lost = clock + up + Fraction(stay.down_seconds), billed + up, lost + at_risk
    raise AssertionError("the last stay is long enough")


whole = st.integers(min_value=0, max_value=400)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    steps=st.integers(1, 60),
    step_seconds=st.integers(1, 9),
    save_cost_seconds=st.integers(0, 9),
    restart_cost_seconds=st.integers(0, 30),
    every_steps=st.integers(1, 70),
    stays=st.lists(st.tuples(whole, whole), max_size=12),
)
def test_every_run_is_what_a_walk_from_event_to_event_finds(stays, every_steps, **numbers):
    work = Work(**numbers)
    every_steps = min(every_steps, work.steps)
    last = Stay(up_seconds=10_000.0, down_seconds=0.0)
    given_stays = [Stay(up_seconds=float(up), down_seconds=float(down)) for up, down in stays]
    run = simulate(work, every_steps=every_steps, stays=chain(given_stays, repeat(last)))
    finish, billed, lost = walk_second_by_second(work, every_steps, [*given_stays, last])
    assert run.finish_seconds == finish
    assert run.billed_seconds == billed
    assert run.lost_seconds == lost
    spent = work.seconds + run.lost_seconds + run.saving_seconds + run.restart_seconds
    assert run.billed_seconds == spent


def test_the_best_of_many_intervals_is_that_of_young_and_daly():
    work = make_work()
    daly = daly_interval(work.save_cost_seconds, 2 * HOUR)
    factors = [1 / 4, 1 / 2, 1, 2, 4]
    stays = exponential_stays(mean_up_seconds=2 * HOUR, mean_down_seconds=0.0, seed=1)
    found = forecast(work, intervals_seconds=[daly * f for f in factors], stays=stays, runs=2000)
    best = min(found, key=lambda f: f.finish_seconds)
    assert best.interval_seconds == pytest.approx(daly, abs=1)


def test_young_is_the_figure_of_the_textbook():
    assert young_interval(30, 2 * HOUR) / 60 == pytest.approx(10.95, abs=0.01)
    assert daly_interval(30, 2 * HOUR) < young_interval(30, 2 * HOUR)
    assert daly_interval(100, 40) == 40  # a save that costs more than the machines last


def test_the_closed_form_is_least_near_dalys_interval():
    def cost(interval):
        return expected_seconds(
            1e6,
            interval_seconds=interval,
            save_cost_seconds=30,
            restart_cost_seconds=0,
            mean_up_seconds=2 * HOUR,
            mean_down_seconds=0,
        )

    daly = daly_interval(30, 2 * HOUR)
    # Intervals that divide the work, so that no short last stretch blurs the comparison.
    near, short, long = (1e6 / round(1e6 / (daly * f)) for f in (1, 0.5, 2))
    assert cost(near) < min(cost(short), cost(long))


def test_a_job_that_saves_too_rarely_never_finishes():
    trace = Trace(name="hourly", stays=(Stay(up_seconds=HOUR, down_seconds=60.0),))
    [found] = forecast(
        make_work(), intervals_seconds=[2 * HOUR], stays=trace_stays(trace, seed=0), runs=10
    )
    assert math.isinf(found.finish_seconds)
    assert math.isinf(found.billed_seconds)


def test_without_interruptions_only_the_saves_and_the_start_are_added():
    trace = Trace(name="calm", stays=(Stay(up_seconds=9.0, down_seconds=0.0),), ends_up=True)
    work = make_work(steps=1000)
    [found] = forecast(work, intervals_seconds=[100], stays=trace_stays(trace, seed=0), runs=5)
    assert found.finish_seconds == 120 + 1000 + 9 * 20
    assert found.interruptions == 0


def test_the_same_seed_gives_the_same_stays_and_another_gives_others():
    def first(seed, number):
        stays = exponential_stays(mean_up_seconds=HOUR, mean_down_seconds=60, seed=seed)
        return list(islice(stays(number), 3))

    assert first(1, 0) == first(1, 0)
    assert first(1, 0) != first(2, 0)
    assert first(1, 0) != first(1, 1)


def test_a_trace_is_walked_around_from_a_moment_within_it():
    stays = (
        Stay(up_seconds=10.0, down_seconds=5.0),
        Stay(up_seconds=20.0, down_seconds=1.0),
    )
    walk = trace_stays(Trace(name="two", stays=stays), seed=0)
    for number in range(50):
        begun, *others = islice(walk(number), 4)
        whole = stays[1] if others[0] == stays[0] else stays[0]
        assert others == [others[0], whole, others[0]]
        assert 0 <= begun.up_seconds <= whole.up_seconds
        assert begun.down_seconds <= whole.down_seconds
        assert begun.up_seconds == 0 or begun.down_seconds == whole.down_seconds

"""The median rule and successive halving equal a plain statement of them; completion criteria."""

from __future__ import annotations

import math
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.tuning.completion import (
    CompletionCriteria,
    CompletionReason,
    count_not_improving,
    find_completion,
)
from stoker.tuning.early_stopping import should_stop
from stoker.tuning.hyperband import (
    Hyperband,
    Verdict,
    choose_promotion,
    decide,
    find_hyperband_mistakes,
    infer_max_resource,
)
from stoker.tuning.study import Goal, Trial, TrialState
from stoker.tuning.warm_start import WarmStart, find_parent_mistakes, make_earlier

VALUES = st.floats(-100, 100, allow_subnormal=False)
CURVES = st.lists(st.lists(VALUES, max_size=12), max_size=9)
BANDS = Hyperband(min_resource=1, max_resource=9)


def make_trial(number, curve, state=TrialState.RUNNING):
    return Trial(number=number, parameters={}, curve=tuple(curve), state=state)


@given(st.sampled_from(Goal), st.lists(VALUES, max_size=8), CURVES)
def test_the_median_rule_equals_a_plain_statement_of_it(goal, curve, earlier):
    t = len(curve)
    averages = [math.fsum(v[:t]) / t for v in earlier if t and len(v) >= t]
    expected = False
    if t >= 2 and len(averages) >= 3:
        m = median(averages)
        expected = curve[-1] > m if goal is Goal.MINIMIZE else curve[-1] < m
        if abs(curve[-1] - m) < 1e-9:
            return  # the order of additions decides
    assert should_stop(goal, curve, earlier) is expected


def test_a_trial_that_reports_nan_is_worse_than_any_median():
    assert should_stop(Goal.MAXIMIZE, [0.1, math.nan], [[0.0, 0.0]] * 3)
    assert not should_stop(Goal.MAXIMIZE, [0.1, 0.1], [[math.nan, 0.0]] * 3)


def test_rungs_grow_by_the_factor_and_end_below_the_most():
    assert BANDS.rungs == (1, 3)
    assert Hyperband(min_resource=2, max_resource=54).rungs == (2, 6, 18)
    assert Hyperband(min_resource=5, max_resource=5).rungs == ()


@given(st.sampled_from(Goal), st.lists(VALUES, min_size=1, max_size=8), CURVES, st.booleans())
def test_halving_equals_a_plain_statement_of_it(goal, curve, others, can_resume):
    trial = make_trial(99, curve)
    trials = [make_trial(number, other) for number, other in enumerate(others)]
    rung = 3 if len(curve) >= 3 else 1
    peers = [other[rung - 1] for other in others if len(other) >= rung]
    mine, sign = curve[rung - 1], 1 if goal is Goal.MINIMIZE else -1
    better = sum(sign * peer <= sign * mine for peer in peers)
    is_kept = better < (len(peers) + 1) // 3 or (len(peers) < 2 and not can_resume)
    lost = Verdict.PAUSE if can_resume else Verdict.STOP
    verdict = decide(BANDS, goal, trial, [*trials, trial], can_resume=can_resume)
    assert verdict is (Verdict.CONTINUE if is_kept else lost)


def test_a_rung_is_decided_once():
    trials = [make_trial(number, [0.0, 0.0, 0.0]) for number in (1, 2, 3)]
    trial = make_trial(4, [1.0, 1.0])
    assert decide(BANDS, Goal.MINIMIZE, trial, trials, can_resume=False) is Verdict.STOP
    kept = decide(BANDS, Goal.MINIMIZE, trial, trials, can_resume=False, decided=1)
    assert kept is Verdict.CONTINUE


def test_a_trial_with_all_its_resource_is_complete():
    trial = make_trial(1, [0.5] * 9)
    assert decide(BANDS, Goal.MINIMIZE, trial, [], can_resume=True) is Verdict.COMPLETE


def test_a_paused_trial_is_promoted_when_later_results_put_it_among_the_best():
    first = make_trial(1, [0.3], TrialState.PAUSED)
    second = make_trial(2, [0.5], TrialState.PAUSED)
    assert choose_promotion(BANDS, Goal.MINIMIZE, [first, second]) is None
    third = make_trial(3, [0.4], TrialState.PAUSED)
    assert choose_promotion(BANDS, Goal.MINIMIZE, [first, second, third]) == 1
    promoted = make_trial(1, [0.3, 0.3])
    assert choose_promotion(BANDS, Goal.MINIMIZE, [promoted, second, third]) is None


def test_the_highest_rung_is_promoted_first():
    high = [make_trial(n, [0.5, 0.5, n / 10], TrialState.PAUSED) for n in (1, 2, 3)]
    low = [make_trial(n, [0.1], TrialState.PAUSED) for n in range(4, 12)]
    assert choose_promotion(BANDS, Goal.MINIMIZE, [*high, *low]) == 1


def test_the_last_call_trains_the_best_in_full_unless_one_was():
    trials = [make_trial(n, [n / 10], TrialState.PAUSED) for n in (2, 1)]
    assert choose_promotion(BANDS, Goal.MINIMIZE, trials, is_last_call=True) == 1
    full = make_trial(3, [0.9] * 9, TrialState.COMPLETED)
    assert choose_promotion(BANDS, Goal.MINIMIZE, [*trials, full], is_last_call=True) == 1
    rest = [make_trial(2, [0.2], TrialState.PAUSED), full]
    assert choose_promotion(BANDS, Goal.MINIMIZE, rest, is_last_call=True) is None


def test_a_value_that_is_not_a_number_ranks_last():
    trials = [make_trial(n, [v], TrialState.PAUSED) for n, v in ((1, math.nan), (2, 9), (3, 8))]
    assert choose_promotion(BANDS, Goal.MINIMIZE, trials) == 3


def test_the_most_epochs_are_inferred_as_the_service_does():
    assert infer_max_resource({"epochs": "27"}) == 27
    assert infer_max_resource({"n-epochs": '"9"'}) == 9
    assert infer_max_resource({"epochs": "many"}) is None
    assert "could not be inferred" in next(find_hyperband_mistakes(None, None))
    assert "at most" in next(find_hyperband_mistakes(9, 3))
    assert not list(find_hyperband_mistakes(None, 27))


@pytest.mark.parametrize(
    ("criteria", "objectives", "reason"),
    [
        (CompletionCriteria(max_trials=3), [0.1, 0.2], None),
        (CompletionCriteria(max_trials=3), [0.1, None, 0.2], CompletionReason.MAX_TRIALS),
        (CompletionCriteria(target=0.9), [0.89], None),
        (CompletionCriteria(target=0.9), [0.1, 0.9], CompletionReason.TARGET),
        (CompletionCriteria(target=0.9), [math.nan, None], None),
        (CompletionCriteria(max_not_improving=3), [0.5, 0.501, 0.502, 0.51], None),
        (
            CompletionCriteria(max_not_improving=3),
            [0.5, 0.501, None, 0.504],
            CompletionReason.NOT_IMPROVING,
        ),
        (CompletionCriteria(on_convergence=True), [0.5] * 10, None),
        (CompletionCriteria(on_convergence=True), [0.5] * 11, CompletionReason.CONVERGED),
        (CompletionCriteria(on_convergence=True), [None] * 20, None),
        (CompletionCriteria(), [0.5] * 500, None),
    ],
)
def test_a_study_is_complete_when_its_criterion_is_met(criteria, objectives, reason):
    assert find_completion(criteria, Goal.MAXIMIZE, objectives, parameters=2) is reason


def test_improvements_below_one_percent_do_not_add_up():
    assert count_not_improving(Goal.MINIMIZE, [1.0, 0.995, 0.99, 0.985]) == 1
    assert count_not_improving(Goal.MINIMIZE, [0.0, -1e-9]) == 0


def test_warm_start_takes_over_the_trials_that_have_an_objective():
    done = Trial(number=1, parameters={}, state=TrialState.COMPLETED, objective=0.5)
    failed = Trial(number=2, parameters={}, state=TrialState.FAILED)
    running = Trial(number=3, parameters={}, curve=(0.1,))
    same = make_earlier(WarmStart.IDENTICAL, [[done, failed, running], [done]])
    assert [trial.parent for trial in same] == [0, 0]
    other = make_earlier(WarmStart.TRANSFER, [[done, failed, running], [done]])
    assert [trial.parent for trial in other] == [1, 2]


def test_a_parent_that_does_not_fit_is_refused_with_the_difference():
    mistakes = list(
        find_parent_mistakes(
            "old",
            metric="loss",
            goal=Goal.MINIMIZE,
            names={"lr", "new"},
            parent_metric="accuracy",
            parent_goal=Goal.MAXIMIZE,
            parent_names={"lr", "gone"},
        )
    )
    assert len(mistakes) == 3
    assert "Maximize accuracy" in mistakes[0]
    assert "gone" in mistakes[1]
    assert "new" in mistakes[2]

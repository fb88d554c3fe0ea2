"""Overtraining: neither loss gets better any more."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from stoker.debugging.rules.overtraining import Overtraining
from stoker.errors import RuleInvalid
from tests.debugging.rules.memory import Run, fired, judge
from tests.debugging.rules.values import REPEATABLE
from tests.debugging.rules.watching import watch

LOSS = "MSELoss_output_0"


def losses(*steps: tuple[str, float]) -> Run:
    run = Run()
    for step, (mode, value) in enumerate(steps):
        run.save(step, {LOSS: value}, mode=mode)
    return run


def train_and_validate(folder, rule: Overtraining, *, epochs: int, lr: float) -> Run:
    """One step of training and one of validation in turn: steps 2n and 2n + 1."""
    torch.manual_seed(0)
    inputs, model, loss = torch.randn(64, 4), nn.Linear(4, 1), nn.MSELoss()
    targets = inputs.sum(dim=1, keepdim=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    with watch(rule, folder) as run:
        for _ in range(epochs):
            model.train()
            optimizer.zero_grad()
            loss(model(inputs), targets).backward()
            optimizer.step()
            model.eval()
            with torch.no_grad():
                loss(model(inputs[:32]), targets[:32])
    return run


def test_a_training_that_continues_after_it_has_learned_everything_fires(tmp_path):
    rule = Overtraining()
    run = train_and_validate(tmp_path, rule, epochs=40, lr=0.2)
    values = {n: float(run.at(n).needed("losses")[0].value()) for n in run.steps()}
    best, without = {"TRAIN": np.inf, "EVAL": np.inf}, {"TRAIN": 0, "EVAL": 0}
    expected = []
    for step in run.steps():
        mode = run.at(step).mode
        if values[step] <= best[mode] - 0.01:
            best[mode], without[mode] = values[step], 0
        else:
            without[mode] += 1
        if (without["TRAIN"] >= 5 and without["EVAL"]) or without["EVAL"] >= 10:
            expected.append(step)
    found = judge(rule, run)
    assert list(found) == expected
    assert 10 < min(found) < 60  # it learned first, and went on for nothing then
    assert found[min(found)].values["train_steps_without"] == 5
    assert max(found) == 79


def test_a_training_that_still_learns_does_not_fire(tmp_path):
    rule = Overtraining()
    run = train_and_validate(tmp_path, rule, epochs=40, lr=0.01)
    assert len(run.steps("EVAL")) == 40
    assert fired(rule, run) == []


def test_the_counter_of_one_mode_runs_out_while_the_other_has_stopped_too():
    rule = Overtraining({"patience_train": "2", "patience_validation": "9"})
    run = losses(("TRAIN", 1.0), ("EVAL", 1.0), ("TRAIN", 1.0), ("TRAIN", 1.0), ("EVAL", 1.0))
    assert fired(rule, run) == [4]
    assert rule.least_steps() == 5


def test_while_the_other_mode_still_improves_it_does_not_fire():
    rule = Overtraining({"patience_train": "2", "patience_validation": "9"})
    steps = [("TRAIN", 1.0), ("EVAL", 1.0)]
    for n in range(1, 6):
        steps += [("TRAIN", 1.0), ("EVAL", 1.0 - 0.1 * n)]
    assert fired(rule, losses(*steps)) == []


def test_validation_alone_cannot_fire_and_neither_can_training():
    rule = {"patience_train": "1", "patience_validation": "1"}
    assert fired(Overtraining(rule), losses(*[("TRAIN", 1.0)] * 9)) == []
    assert fired(Overtraining(rule), losses(*[("EVAL", 1.0)] * 9)) == []


@pytest.mark.parametrize(("second", "is_optimum"), [(0.75, True), (0.7501, False), (0.5, True)])
def test_a_new_optimum_is_better_by_delta_at_least(second, is_optimum):
    rule = Overtraining({"patience_train": "1", "patience_validation": "1", "delta": "0.25"})
    run = losses(("TRAIN", 1.0), ("EVAL", 1.0), ("TRAIN", second), ("EVAL", 1.0))
    assert bool(fired(rule, run)) is not is_optimum


def test_with_a_delta_of_zero_the_same_loss_is_not_a_new_optimum():
    rule = Overtraining({"patience_train": "1", "patience_validation": "1", "delta": "0"})
    run = losses(("TRAIN", 1.0), ("EVAL", 1.0), ("TRAIN", 1.0), ("EVAL", 1.0))
    assert fired(rule, run) == [3]


def test_losses_that_are_not_numbers_are_not_an_optimum():
    rule = {"patience_train": "1", "patience_validation": "1"}
    nan = losses(("TRAIN", 1.0), ("EVAL", 1.0), ("TRAIN", np.nan), ("EVAL", np.inf))
    assert fired(Overtraining(rule), nan) == [3]
    never = losses(*[("TRAIN", np.nan), ("EVAL", np.nan)] * 5)
    assert fired(Overtraining(rule), never) == []  # other rules are about that


def test_steps_without_a_loss_do_not_count():
    rule = Overtraining({"patience_train": "1", "patience_validation": "1"})
    run = losses(("TRAIN", 1.0), ("EVAL", 1.0), ("TRAIN", 1.0))
    run.save(3, {"Net_fc.weight": [1.0]}, mode="EVAL").save(4, {LOSS: 9.0}, mode="PREDICT")
    assert fired(rule, run) == []


@REPEATABLE
@given(
    st.lists(st.tuples(st.sampled_from(["TRAIN", "EVAL"]), st.integers(-8, 8)), max_size=20),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 3),
)
def test_it_fires_exactly_where_plain_python_says(steps, train, validation, delta):
    def without(mode, until):
        """Steps of the mode since its last new optimum."""
        of_mode = [value for m, value in steps[: until + 1] if m == mode]
        best, optima = np.inf, []
        for place, value in enumerate(of_mode):
            if value < best and best - value >= delta:
                best = value
                optima.append(place)
        return len(of_mode) - 1 - optima[-1] if optima else 0

    expected = [
        step
        for step in range(len(steps))
        if without("TRAIN", step) > 0
        and without("EVAL", step) > 0
        and (without("TRAIN", step) >= train or without("EVAL", step) >= validation)
    ]
    rule = Overtraining(
        {"patience_train": str(train), "patience_validation": str(validation), "delta": str(delta)}
    )
    assert fired(rule, losses(*steps)) == expected
    assert not expected or min(expected) + 1 >= rule.least_steps()


@pytest.mark.parametrize(
    "settings", [{"patience_train": "0"}, {"patience_validation": "0"}, {"delta": "-0.1"}]
)
def test_settings_that_cannot_be_are_refused(settings):
    with pytest.raises(RuleInvalid, match=next(iter(settings))):
        Overtraining(settings)

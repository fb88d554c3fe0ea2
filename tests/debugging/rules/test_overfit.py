"""Overfit: the validation loss is far above the training loss."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from stoker.debugging.rules.overfit import Overfit
from stoker.errors import RuleInvalid
from tests.debugging.rules.memory import Run, fired, judge
from tests.debugging.rules.values import REPEATABLE
from tests.debugging.rules.watching import watch

LOSS = "CrossEntropyLoss_output_0"


def losses(*blocks: tuple[str, list[float]]) -> Run:
    """A run from its blocks of losses: ("TRAIN", [1.0, 0.9]), ("EVAL", [1.1]), …"""
    run, step = Run(), 0
    for mode, values in blocks:
        for value in values:
            run.save(step, {LOSS: value}, mode=mode)
            step += 1
    return run


def train_and_validate(folder, rule: Overfit, *, samples: int, lr: float, label) -> Run:
    """Four epochs of 20 steps, each followed by 2 batches of validation."""
    torch.manual_seed(0)
    inputs, validation_inputs = torch.randn(samples, 16), torch.randn(2048, 16)
    labels, validation_labels = label(inputs), label(validation_inputs)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2))
    loss, optimizer = nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), lr=lr)
    with watch(rule, folder) as run:
        for _ in range(4):
            model.train()
            for _ in range(20):
                optimizer.zero_grad()
                loss(model(inputs), labels).backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                for half in (slice(0, 1024), slice(1024, 2048)):
                    loss(model(validation_inputs[half]), validation_labels[half])
    return run


def test_a_network_that_learns_random_labels_by_heart_fires_at_its_first_validation(tmp_path):
    rule = Overfit()
    run = train_and_validate(
        tmp_path, rule, samples=32, lr=0.01, label=lambda inputs: torch.randint(2, (len(inputs),))
    )
    found = judge(rule, run)
    assert list(found) == run.steps("EVAL") == [20, 21, 42, 43, 64, 65, 86, 87]
    assert found[20].values["ratio"] > 0.1
    assert found[20].message.endswith("at step 20 (limit 10%), for 1 EVAL steps in a row")


def test_the_same_network_with_enough_data_and_something_to_learn_does_not_fire(tmp_path):
    rule = Overfit()

    def vague(inputs):
        return (inputs.sum(dim=1) + 4 * torch.randn(len(inputs)) > 0).long()

    run = train_and_validate(tmp_path, rule, samples=4096, lr=0.001, label=vague)
    assert run.steps("EVAL") == [20, 21, 42, 43, 64, 65, 86, 87]
    assert fired(rule, run) == []


@pytest.mark.parametrize(("validation", "fires"), [(1.1, False), (1.125, True), (0.5, False)])
def test_the_ratio_has_to_be_exceeded(validation, fires):
    run = losses(("TRAIN", [1.0]), ("EVAL", [validation]))
    # 1.1 in binary is a little more than a tenth above 1.
    assert bool(fired(Overfit({"ratio_threshold": "0.11"}), run)) is fires


def test_a_ratio_that_is_just_reached_does_not_fire():
    run = losses(("TRAIN", [2.0]), ("EVAL", [3.0]))
    assert fired(Overfit({"ratio_threshold": "0.5"}), run) == []
    assert fired(Overfit({"ratio_threshold": "0.4999"}), run) == [1]


def test_means_are_taken_from_one_validation_to_the_next():
    # The mean of the first block is 2, of the second 1: validation at 1.5 is too high only there.
    run = losses(("TRAIN", [3.0, 1.0]), ("EVAL", [1.5]), ("TRAIN", [1.0, 1.0]), ("EVAL", [1.5]))
    assert fired(Overfit(), run) == [5]


def test_a_validation_is_evaluated_by_its_mean_so_far():
    run = losses(("TRAIN", [1.0]), ("EVAL", [3.0, 0.1, 0.1, 0.1]))
    assert fired(Overfit(), run) == [1, 2]


def test_patience_counts_validation_steps_in_a_row():
    sick, well = ("EVAL", [2.0]), ("EVAL", [1.0])
    train = ("TRAIN", [1.0])
    run = losses(train, sick, train, sick, train, well, train, sick, train, sick, train, sick)
    assert fired(Overfit({"patience": "3"}), run) == [11]
    assert fired(Overfit({"patience": "2"}), run) == [3, 9, 11]


def test_steps_before_the_start_are_not_looked_at():
    run = losses(("TRAIN", [1.0]), ("EVAL", [2.0]), ("TRAIN", [1.0]), ("EVAL", [2.0]))
    assert fired(Overfit({"start_step": "2"}), run) == [3]
    assert fired(Overfit({"start_step": "3"}), run) == []  # there is nothing to compare with


def test_without_training_steps_between_two_validations_the_last_known_loss_counts():
    run = losses(("TRAIN", [1.0]), ("EVAL", [1.0]))
    run.save(2, {"accuracy": 0.9}, mode="PREDICT").save(3, {LOSS: 2.0}, mode="EVAL")
    assert fired(Overfit(), run) == [3]


@pytest.mark.parametrize("train", [np.nan, np.inf, -np.inf])
def test_losses_that_are_not_numbers_are_not_overfitting(train):
    assert fired(Overfit(), losses(("TRAIN", [train]), ("EVAL", [1.0]))) == []
    assert fired(Overfit(), losses(("TRAIN", [1.0]), ("EVAL", [np.nan]))) == []


def test_negative_and_zero_losses_keep_their_order():
    assert fired(Overfit(), losses(("TRAIN", [-2.0]), ("EVAL", [-3.0]))) == []
    assert fired(Overfit(), losses(("TRAIN", [-3.0]), ("EVAL", [-2.0]))) == [1]
    assert fired(Overfit(), losses(("TRAIN", [0.0]), ("EVAL", [0.0]))) == []
    assert fired(Overfit(), losses(("TRAIN", [0.0]), ("EVAL", [1e-9]))) == [1]


def test_nothing_to_compare_is_nothing_to_say():
    assert fired(Overfit(), losses(("EVAL", [2.0]))) == []
    assert fired(Overfit(), losses(("TRAIN", [2.0]))) == []
    assert fired(Overfit(), Run().save(0, {"Net_fc.weight": [1.0]}, mode="EVAL")) == []


def test_a_loss_per_sample_counts_by_its_mean_and_only_the_named_ones_count():
    run = Run().save(0, {"a_loss": [1.0, 3.0], "b_loss": 90.0})
    run.save(1, {"a_loss": [2.0, 4.0], "b_loss": 0.0}, mode="EVAL")
    assert fired(Overfit({"tensor_regex": "a_loss"}), run) == [1]
    assert fired(Overfit({"tensor_regex": "_loss"}), run) == []


BLOCK = st.lists(st.floats(0.125, 8, width=32), min_size=1, max_size=3)


@REPEATABLE
@given(st.lists(st.tuples(BLOCK, BLOCK), max_size=5), st.integers(1, 4), st.floats(0, 2))
def test_it_fires_exactly_where_numpy_says(blocks, patience, threshold):
    run = losses(*(b for train, val in blocks for b in (("TRAIN", train), ("EVAL", val))))
    expected, step, flags = [], 0, []
    for train, validation in blocks:
        step += len(train)
        for count in range(1, len(validation) + 1):
            means = np.mean(validation[:count]), np.mean(train)
            flags.append((means[0] - means[1]) / means[1] > threshold)
            if len(flags) >= patience and all(flags[-patience:]):
                expected.append(step)
            step += 1
    rule = Overfit({"patience": str(patience), "ratio_threshold": repr(threshold)})
    assert fired(rule, run) == expected
    assert not expected or rule.least_steps() <= len(run.steps())


def test_it_can_fire_after_the_least_steps():
    rule = Overfit({"patience": "2"})
    assert fired(rule, losses(("TRAIN", [1.0]), ("EVAL", [2.0, 2.0]))) == [2]
    assert rule.least_steps() == 3


@pytest.mark.parametrize(
    "settings", [{"patience": "0"}, {"start_step": "-1"}, {"ratio_threshold": "much"}]
)
def test_settings_that_cannot_be_are_refused(settings):
    with pytest.raises(RuleInvalid, match=next(iter(settings))):
        Overfit(settings)

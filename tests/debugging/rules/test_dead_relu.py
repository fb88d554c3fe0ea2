"""DeadRelu: ReLUs that are never active."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from stoker.debugging.description import Description
from stoker.debugging.rules.dead_relu import DeadRelu
from stoker.errors import RuleInvalid
from tests.debugging.rules.memory import Run, fired, judge
from tests.debugging.rules.training import train
from tests.debugging.rules.values import REPEATABLE, any_array

NAME = "features.1_output_0"


def train_with(rule, folder, model, *, lr=0.01, steps=5):
    torch.manual_seed(0)
    inputs, labels = torch.randn(128, 8), torch.arange(128) % 2
    return train(rule, model, inputs, labels, folder=folder, lr=lr, steps=steps)


def make_model(activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 32), activation(), nn.Linear(32, 2))


def run_of(*outputs, name=NAME, module_class="ReLU") -> Run:
    run = Run(descriptions=[Description(name=name, kind="output", module_class=module_class)])
    for step, output in enumerate(outputs):
        run.save(step, {name: np.array(output, np.float32)})
    return run


def test_a_layer_that_starts_at_zero_fires_at_step_0(tmp_path):
    # The tests of 2019: a Dense layer of zeros with ReLU.
    rule, model = DeadRelu(), make_model()
    nn.init.zeros_(model[0].weight)
    nn.init.zeros_(model[0].bias)
    found = judge(rule, train_with(rule, tmp_path, model))
    assert list(found) == [0, 1, 2, 3, 4]
    assert found[0].tensor == "1_output_0"
    assert found[0].values["dead_percent"] == 100
    assert found[0].values["observations"] == 128


def test_a_xavier_layer_is_healthy(tmp_path):
    # The tests of 2019: not by step 4.
    rule, model = DeadRelu(), make_model()
    nn.init.xavier_uniform_(model[0].weight)
    assert fired(rule, train_with(rule, tmp_path, model)) == []


def test_units_that_die_later_are_seen_when_hardly_any_observation_was_active(tmp_path):
    rule, model = DeadRelu(), make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    class Killed(nn.Module):
        """The layer gets a bias far below zero after its first step."""

        def __init__(self) -> None:
            super().__init__()
            self.inner, self.calls = model, 0

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            if self.calls == 1:
                nn.init.constant_(self.inner[0].bias, -100.0)
            self.calls += 1
            return self.inner(inputs)

    torch.manual_seed(0)
    inputs, labels = torch.randn(128, 8), torch.arange(128) % 2
    run = train(rule, Killed(), inputs, labels, folder=tmp_path, optimizer=optimizer, steps=100)
    steps = fired(rule, run)
    # A unit is active for about half of the first batch: after that it takes some fifty dead
    # batches until this is less than one percent of all.
    outputs = [run.at(step).find("inner.1_output_0").value() > 0 for step in run.steps()]
    shares = [np.concatenate(outputs[: n + 1]).mean(axis=0) for n in range(len(outputs))]
    dead = [step for step, share in enumerate(shares) if (share < 0.01).mean() > 0.5]
    assert steps == dead
    assert 20 < steps[0] < 99


def test_other_activations_and_relu_by_another_name(tmp_path):
    zeros = np.zeros((4, 3))
    assert fired(DeadRelu(), run_of(zeros, module_class="ReLU6")) == [0]
    assert fired(DeadRelu(), run_of(zeros, module_class="GELU")) == []
    assert fired(DeadRelu(), run_of(zeros, module_class="")) == []


def test_files_of_smdebug_are_searched_by_the_default_expression():
    run = Run().save(0, {"conv0_relu_output_0": np.zeros((4, 3))})
    assert fired(DeadRelu(), run) == [0]


def test_the_expression_of_the_user_wins():
    described = [
        Description(name="a_output_0", kind="output", module_class="ReLU"),
        Description(name="b_output_0", kind="output", module_class="Linear"),
    ]
    run = Run(descriptions=described)
    run.save(0, {"a_output_0": np.zeros((4, 2)), "b_output_0": np.ones((4, 2))})
    assert fired(DeadRelu({"tensor_regex": "^b_"}), run) == []
    assert fired(DeadRelu({"tensor_regex": "^a_"}), run) == [0]
    assert fired(DeadRelu({"tensor_regex": ".*relu_output"}), run) == [0]  # the default, as unset


def test_exactly_the_limit_is_healthy():
    half = np.ones((4, 2))
    half[:, 0] = 0
    assert fired(DeadRelu(), run_of(half)) == []
    assert fired(DeadRelu({"threshold_layer": "49.9"}), run_of(half)) == [0]
    rare = np.zeros((100, 1))
    rare[0] = 1
    assert fired(DeadRelu(), run_of(rare)) == []
    assert fired(DeadRelu({"threshold_inactivity": "1.01"}), run_of(rare)) == [0]


def test_negative_outputs_and_nan_are_not_active():
    assert fired(DeadRelu(), run_of([[-1.0, np.nan]])) == [0]


def test_few_observations_are_said_to_be_few():
    assert "only 1 observations" in judge(DeadRelu(), run_of([[0.0]]))[0].hint
    assert "LeakyReLU" in judge(DeadRelu(), run_of(np.zeros((100, 1))))[0].hint


def test_a_number_an_empty_batch_and_no_nodes():
    assert fired(DeadRelu(), run_of(0.0)) == [0]
    assert fired(DeadRelu(), run_of(np.zeros((0, 3)), np.zeros((3, 0)))) == []


def test_a_layer_of_another_shape_is_counted_again():
    assert fired(DeadRelu(), run_of(np.ones((1, 2)), np.zeros((1, 3)), np.zeros((1, 2)))) == [1, 2]
    same = run_of(np.ones((1, 2)), np.zeros((1, 2)))
    assert fired(DeadRelu(), same) == []


def test_the_finding_names_value_limit_tensor_and_step():
    finding = judge(DeadRelu(), run_of(np.zeros((4, 3))))[0]
    assert finding.message == (
        "100 % of the nodes of features.1_output_0 are dead at step 0, limit 50 % "
        "(active in less than 1 % of 4 observations)"
    )


@pytest.mark.parametrize("name", ["threshold_inactivity", "threshold_layer"])
def test_percentages_have_bounds(name):
    for text in ("-1", "101"):
        with pytest.raises(RuleInvalid, match=name):
            DeadRelu({name: text})


@REPEATABLE
@given(
    st.lists(any_array(st.sampled_from([0.0, 1.0, -1.0, np.nan]), (3, 2, 2)), max_size=4),
    st.sampled_from([1.0, 40.0, 100.0]),
    st.sampled_from([0.0, 25.0, 50.0, 75.0]),
)
def test_it_fires_exactly_when_too_many_nodes_are_rarely_active(batches, inactivity, limit):
    expected = []
    for step in range(len(batches)):
        seen = np.concatenate(batches[: step + 1]) > 0
        dead = 100 * seen.sum(axis=0) < inactivity * len(seen)
        if 100 * dead.mean() > limit:
            expected.append(step)
    rule = DeadRelu({"threshold_inactivity": str(inactivity), "threshold_layer": str(limit)})
    assert fired(rule, run_of(*batches)) == expected

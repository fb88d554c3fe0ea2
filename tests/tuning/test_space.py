"""The space: what is refused, and that points, values and requests describe the same thing."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.errors import SearchInvalid
from stoker.tuning.parameters import Categorical, Continuous, Integer, Scaling, resolve_scaling
from stoker.tuning.space import SearchSpace, find_range_mistakes, read_space

POSITIONS = st.floats(0, 1)
LR = {"Name": "lr", "MinValue": "0.0001", "MaxValue": "0.1", "ScalingType": "Logarithmic"}
LAYERS = {"Name": "layers", "MinValue": "1", "MaxValue": "4"}
OPTIMIZER = {"Name": "opt", "Values": ['"sgd"', '"adam"']}


@st.composite
def continuous(draw):
    scaling = draw(st.sampled_from(Scaling))
    least = {Scaling.LOGARITHMIC: 1e-12, Scaling.REVERSE_LOGARITHMIC: 0.0}.get(scaling, -1e300)
    most = 1 - 1e-9 if scaling is Scaling.REVERSE_LOGARITHMIC else 1e300
    low, high = sorted(draw(st.lists(st.floats(least, most), min_size=2, max_size=2, unique=True)))
    return Continuous(name="x", low=low, high=high, scaling=scaling)


@st.composite
def integers(draw):
    scaling = draw(st.sampled_from([s for s in Scaling if s is not Scaling.REVERSE_LOGARITHMIC]))
    low = draw(st.integers(1 if scaling is Scaling.LOGARITHMIC else -(10**6), 10**6))
    high = low + draw(st.integers(1, 10**6))
    return Integer(name="n", low=low, high=high, scaling=scaling)


CATEGORIES = st.lists(st.text(max_size=9), min_size=2, max_size=30, unique=True).map(
    lambda values: Categorical(name="c", values=tuple(values))
)


def test_a_request_becomes_a_space():
    request = {
        "ContinuousParameterRanges": [LR],
        "IntegerParameterRanges": [LAYERS],
        "CategoricalParameterRanges": [OPTIMIZER],
    }
    assert read_space(request).parameters == (
        Continuous(name="lr", low=0.0001, high=0.1, scaling=Scaling.LOGARITHMIC),
        Integer(name="layers", low=1, high=4, scaling=Scaling.AUTO),
        Categorical(name="opt", values=('"sgd"', '"adam"')),
    )


def test_a_value_keeps_the_text_of_the_service():
    space = read_space(
        {"IntegerParameterRanges": [LAYERS], "CategoricalParameterRanges": [OPTIMIZER]}
    )
    assert space.decode([0.99, 0.99]) == {"layers": "4", "opt": '"adam"'}


@given(continuous(), POSITIONS)
def test_a_number_stays_in_its_range(parameter, position):
    assert parameter.low <= float(parameter.decode(position)) <= parameter.high


@given(integers(), POSITIONS)
def test_an_integer_is_one_and_stays_in_its_range(parameter, position):
    assert parameter.low <= int(parameter.decode(position)) <= parameter.high


@given(st.one_of(integers(), CATEGORIES), POSITIONS)
def test_a_discrete_value_comes_back_from_its_position(parameter, position):
    text = parameter.decode(position)
    assert parameter.decode(parameter.encode(text)) == text


@given(st.floats(1e-6, 1e6), st.floats(1.5, 1e6), st.sampled_from(Scaling), st.floats(0.01, 0.99))
def test_a_position_comes_back_from_its_value(low, ratio, scaling, position):
    if scaling is Scaling.REVERSE_LOGARITHMIC:
        low, ratio = 0.0, 0.999
    parameter = Continuous(name="x", low=low, high=(low or 1) * ratio, scaling=scaling)
    assert parameter.encode(parameter.decode(position)) == pytest.approx(position, abs=1e-6)


def test_scalings_put_their_own_middle_into_the_middle():
    def middle(low, high, scaling):
        return float(Continuous(name="x", low=low, high=high, scaling=scaling).decode(0.5))

    assert middle(1e-5, 1e-1, Scaling.LOGARITHMIC) == pytest.approx(1e-3)
    assert middle(1e-5, 1e-1, Scaling.LINEAR) == pytest.approx(0.050005)
    # 1 - x goes from 0.1 to 0.001: the middle of its logarithm is 0.01.
    assert middle(0.9, 0.999, Scaling.REVERSE_LOGARITHMIC) == pytest.approx(0.99)


@pytest.mark.parametrize(("low", "high", "chosen"), [(0.001, 0.1, "Logarithmic"), (0, 9, "Linear"),
                                                     (0.01, 0.1, "Linear")])  # fmt: skip
def test_auto_is_logarithmic_for_wide_ranges_above_zero(low, high, chosen):
    assert resolve_scaling(Continuous(name="x", low=low, high=high)) == chosen


def test_the_bounds_of_an_integer_have_the_same_chance_as_the_others():
    layers = Integer(name="n", low=1, high=4, scaling=Scaling.LINEAR)
    drawn = [layers.decode((i + 0.5) / 400) for i in range(400)]
    assert [drawn.count(text) for text in "1234"] == [100] * 4


@pytest.mark.parametrize("text", ["0.2", "0.00009", "nan", "inf", "", "fast"])
def test_a_value_outside_the_range_has_no_point(text):
    assert read_space({"ContinuousParameterRanges": [LR]}).encode({"lr": text}) is None


def test_a_missing_value_has_no_point():
    assert read_space({"ContinuousParameterRanges": [LR]}).encode({}) is None


def test_only_spaces_without_continuous_parameters_can_be_counted():
    layers, optimizer = Integer(name="n", low=1, high=4), Categorical(name="c", values=("a", "b"))
    assert SearchSpace(parameters=(layers, optimizer)).combinations == 8
    rate = Continuous(name="x", low=0, high=1)
    assert SearchSpace(parameters=(layers, rate)).combinations is None


@pytest.mark.parametrize(
    ("ranges", "text"),
    [
        ({}, "at least one range"),
        ({"ContinuousParameterRanges": [LR | {"MinValue": "0.1"}]}, "less than its MaxValue"),
        ({"ContinuousParameterRanges": [LR | {"MinValue": "0.2"}]}, "less than its MaxValue"),
        ({"ContinuousParameterRanges": [LR | {"MinValue": "0"}]}, "needs a range above 0"),
        ({"ContinuousParameterRanges": [LR | {"MinValue": "low"}]}, "must be a number"),
        ({"ContinuousParameterRanges": [LR | {"MaxValue": "inf"}]}, "must be a number"),
        ({"ContinuousParameterRanges": [LR | {"MaxValue": "nan"}]}, "must be a number"),
        ({"ContinuousParameterRanges": [LR | {"MaxValue": "9" * 257}]}, "must be a number"),
        ({"IntegerParameterRanges": [LAYERS | {"MaxValue": "4.5"}]}, "must be an integer"),
        ({"IntegerParameterRanges": [LAYERS | {"MaxValue": "9" * 5000}]}, "must be an integer"),
        (
            {"IntegerParameterRanges": [LAYERS | {"ScalingType": "ReverseLogarithmic"}]},
            "continuous ranges only",
        ),
        (
            {
                "ContinuousParameterRanges": [
                    LR | {"MaxValue": "1", "ScalingType": "ReverseLogarithmic"}
                ]
            },
            "0 <= x < 1",
        ),
        ({"CategoricalParameterRanges": [OPTIMIZER | {"Values": ["a"]}]}, "2 to 30 values"),
        (
            {"CategoricalParameterRanges": [OPTIMIZER | {"Values": list(map(str, range(31)))}]},
            "2 to 30 values",
        ),
        ({"CategoricalParameterRanges": [OPTIMIZER | {"Values": ["a", "a"]}]}, "more than once"),
        (
            {"CategoricalParameterRanges": [OPTIMIZER | {"Values": ["a", "b" * 257]}]},
            "257 characters",
        ),
        (
            {
                "ContinuousParameterRanges": [LR],
                "IntegerParameterRanges": [LAYERS | {"Name": "lr"}],
            },
            "more than one range",
        ),
        (
            {"IntegerParameterRanges": [LAYERS | {"Name": str(i)} for i in range(31)]},
            "at most 30",
        ),
    ],
)
def test_a_mistake_is_refused_by_name(ranges, text):
    (mistake,) = find_range_mistakes(ranges)
    assert text in mistake


def test_every_mistake_is_reported_at_once():
    with pytest.raises(SearchInvalid) as caught:
        read_space({"ContinuousParameterRanges": [LR | {"MinValue": "x", "MaxValue": "y"}]})
    assert len(caught.value.mistakes) == 2


def test_extreme_ranges_do_not_overflow():
    parameter = Continuous(name="x", low=-1.7e308, high=1.7e308)
    assert math.isfinite(float(parameter.decode(0.75)))
    assert parameter.encode("0") == pytest.approx(0.5)

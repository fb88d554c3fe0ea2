"""The metric line and the regexes that read it."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker.bus.metric_line import make_definitions, make_line, read_line


def read(line, name):
    """What SageMaker's scraper does: the first group of the first match."""
    found = re.search(make_definitions([name])[0]["Regex"], line)
    return None if found is None else float(found[1])


def test_a_line_is_easy_on_the_eye():
    line = make_line(12, {"train/loss": 0.25, "lr": 1e-05})
    assert line == "[metric] step=12 train/loss=0.25 lr=1e-05\n"


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(-(2**70), 2**70),
    st.dictionaries(st.text(min_size=1), st.floats(), min_size=1, max_size=5),
)
def test_every_metric_is_read_back_whatever_it_is_called(step, metrics):
    line = make_line(step, metrics)
    assert line.count("\n") == 1
    assert len(line.splitlines()) == 1
    line.encode()
    for name, value in metrics.items():
        got = read(line, name)
        assert got == value or (math.isnan(value) and math.isnan(got))


@given(st.dictionaries(st.text(min_size=1), st.floats(allow_nan=False), min_size=1, max_size=5))
def test_a_whole_line_is_read_back(metrics):
    got = read_line(f"10:02 INFO {make_line(3, metrics)}")
    assert got == {n.encode(errors="replace").decode(): v for n, v in metrics.items()}


@pytest.mark.parametrize(
    "line",
    ["", "loss=3", "[metric] step=", "[metric] step=3", "[metric] step=3 loss=x", "step=3 a=1"],
)
def test_what_is_no_metric_line_has_no_metrics(line):
    assert read_line(line) == {}


def test_a_name_is_not_found_in_a_longer_one():
    assert read(make_line(1, {"val/loss": 2.0, "loss/x": 3.0, "xloss": 1.0}), "loss") is None


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e-300", "-0.0", "5e-324"])
def test_all_spellings_of_numbers_are_read(value):
    assert str(read(make_line(1, {"m": float(value)}), "m")) == str(float(value))


def test_other_output_is_not_mistaken_for_metrics():
    assert read("epoch 3 loss=0.5\n", "loss") is None

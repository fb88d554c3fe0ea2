"""Our JSON is json's, to the letter."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.contract.quick_json import dumps, loads

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
PROFILE = settings(derandomize=True, deadline=None, max_examples=100)


@PROFILE
@given(VALUES)
def test_what_is_written_is_what_json_writes(value):
    assert dumps(value) == json.dumps(value, sort_keys=True, separators=(",", ":"))


@PROFILE
@given(VALUES, st.sampled_from(["", " ", "\n\t "]))
def test_what_is_read_is_what_json_reads(value, space):
    text = space + json.dumps(value) + space
    assert repr(loads(text)) == repr(json.loads(text))


@PROFILE
@given(st.text())
def test_what_json_refuses_is_refused(text):
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(ValueError, match=r"."):
            loads(text)
    else:
        assert repr(loads(text)) == repr(expected)


@pytest.mark.parametrize(
    "text", ["", " ", "{", '{"a" 1}', "[1,]", "1 2", "nul", '"\n"', "\ufeff1"]
)
def test_damaged_texts_raise_valueerror(text):
    with pytest.raises(ValueError, match=r"."):
        loads(text)


def test_the_constants_that_are_not_json_are_read_as_json_reads_them():
    assert math.isnan(loads("NaN"))
    assert loads("[Infinity, -Infinity]") == [math.inf, -math.inf]


def test_deep_nesting_is_a_recursion_error():
    with pytest.raises(RecursionError):
        loads("[" * 200_000)


def test_what_is_not_json_goes_as_its_text():
    assert dumps({"a": ("b", 1j)}) == '{"a":["b","1j"]}'

"""Which steps are recorded, and how a request for them reads."""

from __future__ import annotations

import pytest

from stoker.errors import ConfigInvalid
from stoker.profiling.window import MOST_STEPS, MOST_WINDOWS, Window, make_window, read_request


@pytest.mark.parametrize(
    ("text", "first", "last", "place"),
    [
        ("steps=10-13", 10, 13, "tensorboard"),
        (" steps=10-13 , to=output ", 10, 13, "output"),
        ("to=tensorboard;steps=7", 7, 7, "tensorboard"),
        ("steps=0-3", 2, 3, "tensorboard"),  # step 1 begins where we first learn of any step
        ("steps=0", 2, 2, "tensorboard"),
        ("steps=5-1000000", 5, 4 + MOST_STEPS, "tensorboard"),
    ],
)
def test_a_request_names_steps_and_a_place(text, first, last, place):
    window, to = read_request(text)
    assert to == place
    assert window.first_recorded(last) == first
    assert window.last_recorded == last


@pytest.mark.parametrize(
    "text", ["", "10-13", "steps=", "steps=9-3", "steps=-1", "steps=1-2,x=3", "steps=2,to=moon"]
)
def test_a_request_that_cannot_be_read_shows_one_that_can(text):
    with pytest.raises(ConfigInvalid) as caught:
        read_request(text)
    assert 'STOKER_PROFILE="steps=10-13"' in caught.value.fix


def test_each_window_knows_its_first_step():
    window = Window(wait=2, warmup=1, active=3, repeat=2, skip_first=4)
    assert [window.first_recorded(step) for step in (7, 9, 13, 15)] == [7, 7, 13, 13]
    assert window.last_recorded == 15


def test_windows_are_bounded():
    window = make_window(wait=0, warmup=0, active=10**6, repeat=10**6)
    assert (window.active, window.repeat) == (MOST_STEPS, MOST_WINDOWS)
    assert make_window(wait=1, warmup=1, active=3, repeat=0).repeat == MOST_WINDOWS


@pytest.mark.parametrize(
    "wrong", [{"wait": -1}, {"warmup": -1}, {"active": 0}, {"active": -3}, {"repeat": -1}]
)
def test_numbers_that_are_none_are_refused(wrong):
    with pytest.raises(ValueError, match="must be 0 or more and active at least 1, but got"):
        make_window(**{"wait": 1, "warmup": 1, "active": 3, "repeat": 1, **wrong})

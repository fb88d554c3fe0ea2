"""Typed hyperparameters from raw texts."""

from __future__ import annotations

import copy
import pickle

import pytest

from stoker.contract.params import Params, make_params
from stoker.errors import ParamsInvalid


@pytest.mark.parametrize(
    ("text", "default", "expected"),
    [
        ("3", 1, 3),
        ("-3", 1, -3),
        (" 3 ", 1, 3),
        ("1e3", 1, 1000),
        ("64.0", 1, 64),
        ('"64"', 1, 64),
        ("1e-4", 0.1, 1e-4),
        ("3", 0.1, 3.0),
        ("inf", 0.1, float("inf")),
        ('"0.5"', 0.1, 0.5),
        ("adam", "sgd", "adam"),
        ('"adam"', "sgd", "adam"),
        ("1.10", "0", "1.10"),
        ('"1.10"', "0", "1.10"),
        ("1234e56", "0", "1234e56"),
        ("007", "0", "007"),
        ("null", "0", "null"),
        ("", "x", ""),
        ('"größe"', "x", "größe"),
        ('"a\\"b\\nc"', "x", 'a"b\nc'),
        ("[1, 2]", [0], [1, 2]),
        ('"[1, 2]"', [0], [1, 2]),
        ("[1, 2]", (0,), (1, 2)),
        ('{"a": 1}', {}, {"a": 1}),
        ("3", None, 3),
        ("null", None, None),
        ("adam", None, "adam"),
    ],
)
def test_a_text_becomes_the_type_of_its_default(text, default, expected):
    value = make_params({"x": text}, {"x": default}).x
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize("text", ["true", "True", "TRUE", "1", "yes", "on", '"true"', " true "])
def test_every_spelling_of_true_is_true(text):
    assert make_params({"x": text}, {"x": False}).x is True


@pytest.mark.parametrize("text", ["false", "False", "FALSE", "0", "no", "off", '"False"', ""])
def test_every_spelling_of_false_is_false(text):
    assert make_params({"x": text}, {"x": True}).x is False


@pytest.mark.parametrize(
    ("text", "default"),
    [
        ("maybe", True),
        ("2", True),
        ("3.5", 1),
        ("three", 1),
        ("", 1),
        ("inf", 1),
        ("nan", 1),
        ("9" * 5000, 1),
        ("fast", 0.1),
        ("", 0.1),
        ("3", [1]),
        ("a,b", [1]),
        ("{}", [1]),
        ("[]", {"a": 1}),
    ],
)
def test_a_text_of_another_type_is_refused_with_its_name_and_value(text, default):
    with pytest.raises(ParamsInvalid, match=r"\bx='") as caught:
        make_params({"x": text}, {"x": default})
    assert len(caught.value.message) < 250
    assert caught.value.fix


def test_a_default_is_used_where_nothing_was_sent():
    assert make_params({}, {"lr": 0.1, "layers": [1]}).to_dict() == {"lr": 0.1, "layers": [1]}


def test_a_type_instead_of_a_default_makes_a_parameter_required():
    assert make_params({"lr": "0.5"}, {"lr": float}).lr == 0.5
    with pytest.raises(ParamsInvalid, match=r"lr \(float\) is required"):
        make_params({}, {"lr": float})


def test_a_dash_and_an_underscore_are_one_name():
    assert make_params({"batch-size": "8"}, {"batch_size": 1}).batch_size == 8


def test_two_spellings_of_one_name_with_different_values_are_refused():
    # Which of them the user meant cannot be known; silently taking the last is worse than asking.
    with pytest.raises(ParamsInvalid, match="batch_size"):
        make_params({"batch-size": "8", "batch_size": "16"}, {"batch_size": 1})


def test_a_misspelt_name_is_refused_with_the_near_miss():
    with pytest.raises(ParamsInvalid, match=r"epohcs .*did you mean epochs\?"):
        make_params({"epohcs": "3"}, {"epochs": 1, "lr": 0.1})


def test_a_name_near_to_none_is_refused_with_all_there_are():
    with pytest.raises(ParamsInvalid, match="known: epochs, lr"):
        make_params({"zzz": "3"}, {"epochs": 1, "lr": 0.1})


def test_all_mistakes_are_told_at_once():
    with pytest.raises(ParamsInvalid) as caught:
        make_params(
            {"epohcs": "3", "amp": "maybe", "depth": "x"},
            {"epochs": 1, "amp": False, "depth": 2, "lr": float},
        )
    for part in ("epohcs", "amp='maybe'", "depth='x'", "lr (float) is required"):
        assert part in caught.value.message


def test_a_type_no_text_can_become_is_a_mistake_of_the_script():
    with pytest.raises(ParamsInvalid, match="set"):
        make_params({"x": "1"}, {"x": {1}})


def test_params_never_change():
    hp = make_params({}, {"lr": 0.1})
    with pytest.raises(AttributeError, match="never change"):
        hp.lr = 1.0


def test_an_undeclared_name_says_which_there_are():
    hp = make_params({}, {"lr": 0.1, "epochs": 3})
    with pytest.raises(AttributeError, match="declared: lr, epochs"):
        _ = hp.momentum


def test_params_are_iterable_comparable_and_printable():
    hp = make_params({}, {"lr": 0.1, "name": "a"})
    assert list(hp) == ["lr", "name"]
    assert hp["lr"] == 0.1
    assert repr(hp) == "Params(lr=0.1, name='a')"
    assert hp == Params({"lr": 0.1, "name": "a"})
    assert hp != Params({"lr": 0.2, "name": "a"})


def test_equal_params_have_equal_hashes():
    one, other = Params({"x": 1}), Params({"x": 1.0})
    assert one == other
    assert hash(one) == hash(other)


def test_params_travel_to_worker_processes():
    hp = make_params({"lr": "0.5"}, {"lr": 0.1})
    assert pickle.loads(pickle.dumps(hp)) == hp
    assert copy.deepcopy(hp) == hp

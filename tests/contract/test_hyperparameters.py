"""Hyperparameters as the platform sends them."""

from __future__ import annotations

import pytest

from stoker.contract.hyperparameters import (
    Hyperparameters,
    as_text,
    decode,
    make_arguments,
    read_hyperparameters,
)
from stoker.contract.paths import Paths
from stoker.errors import ConfigInvalid


def read(opt_ml, content):
    opt_ml.config("hyperparameters", content)
    return read_hyperparameters(Paths(root=str(opt_ml.root)))


@pytest.mark.parametrize("text", ["1.10", "1234e56", "007", '"1.10"', "", " 1 ", "1e-5", "True"])
def test_the_raw_text_is_kept(opt_ml, text):
    assert read(opt_ml, {"x": text}).user() == {"x": text}


def test_no_file_means_no_hyperparameters(opt_ml):
    assert read_hyperparameters(Paths(root=str(opt_ml.root))).raw == {}


def test_reserved_keys_never_reach_the_script(opt_ml):
    sent = {
        "epochs": "3",
        "sagemaker_program": "train.py",
        "sagemaker_mpi_enabled": "true",
        "_tuning_objective_metric": "loss",
        "default_user_module_name": "m",
    }
    hyperparameters = read(opt_ml, sent)
    assert hyperparameters.values() == {"epochs": 3}
    assert hyperparameters.framework() == {"sagemaker_mpi_enabled": True}


def test_values_that_are_not_texts_are_taken_as_json(opt_ml):
    hyperparameters = read(opt_ml, {"a": 1.5, "b": [1, "x"], "c": None, "d": True})
    assert hyperparameters.raw == {"a": "1.5", "b": '[1,"x"]', "c": "null", "d": "true"}


def test_a_setting_loses_its_json_quotes():
    hyperparameters = Hyperparameters(raw={"sagemaker_program": '"a.py"', "bare": "b.py"})
    assert hyperparameters.setting("sagemaker_program") == "a.py"
    assert hyperparameters.setting("bare") == "b.py"
    assert hyperparameters.setting("absent") is None


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("1.10", "1.1"),
        ("1234e56", "1.234e+59"),
        ("1e-4", "0.0001"),
        ("12345678901234567890.1", "1.2345678901234567e+19"),
        ("-0", "0"),
    ],
)
def test_a_number_that_prints_differently_is_told(text, printed):
    assert Hyperparameters(raw={"x": text}).changed_texts() == {"x": printed}


@pytest.mark.parametrize(
    "text", ["1.1", "3", "true", "false", "null", "NaN", "007", '"1.10"', "[1.10]", "adam", " 3 "]
)
def test_a_text_that_prints_the_same_is_not_told(text):
    assert Hyperparameters(raw={"x": text}).changed_texts() == {}


@pytest.mark.parametrize(
    "sent", [{"x": "a\0b"}, {"a\0b": "x"}, {"x": '"a\\u0000b"'}, {"x": '{"a": "\\u0000"}'}]
)
def test_a_nul_is_refused_however_it_is_spelt(opt_ml, sent):
    # The last two arrive as escapes and are a NUL once decoded; no argv can carry one.
    with pytest.raises(ConfigInvalid, match="NUL"):
        read(opt_ml, sent)


@pytest.mark.parametrize(
    ("text", "meant"),
    [('"a"', "a"), ("a", "a"), ('"a', '"a'), ("[1]", "[1]"), ('""', ""), ("", ""), ("1", "1")],
)
def test_the_text_a_user_meant(text, meant):
    assert as_text(text) == meant


def test_what_is_not_json_stays_text():
    assert decode("not json") == "not json"
    assert decode("[" * 100_000) == "[" * 100_000
    assert decode("9" * 5000) == "9" * 5000


@pytest.mark.parametrize(
    ("values", "arguments"),
    [
        ({"b": 1, "alpha": 2}, ["--alpha", "2", "-b", "1"]),
        ({"flag": True}, ["--flag", "True"]),
        ({"none": None}, ["--none", ""]),
        ({"list": [1, "a"]}, ["--list", "[1, 'a']"]),
        ({"map": {"c": True, "a": {"b": 1}}}, ["--map", "a={'b': 1},c=True"]),
        ({"": "x"}, ["", "x"]),
        ({}, []),
    ],
)
def test_the_command_line_is_spelt_as_the_toolkit_spells_it(values, arguments):
    assert make_arguments(values) == arguments

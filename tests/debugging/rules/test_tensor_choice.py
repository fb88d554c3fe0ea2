"""Which tensors the settings of a rule name."""

from __future__ import annotations

import pytest

from stoker.debugging.need import Need
from stoker.debugging.rules.tensor_choice import (
    chosen_needs,
    chosen_or_all_needs,
    role_needs,
    split_regexes,
    union,
)
from stoker.errors import RuleInvalid
from tests.debugging.rules.memory import Run


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", [""]),
        ("a,b", ["a", "b"]),
        (r"conv\d{1,2},fc", [r"conv\d{1,2}", "fc"]),
        ("(a,(b,c)),d", ["(a,(b,c))", "d"]),
        ("[,;],x", ["[,;]", "x"]),
        (r"a\(,b\)", [r"a\(", r"b\)"]),
        ("a\\", ["a\\"]),
    ],
)
def test_a_comma_inside_brackets_belongs_to_its_expression(text, pieces):
    assert split_regexes(text) == pieces


def test_collections_and_expressions_become_one_need_each():
    needs = chosen_needs(" weights , mine,", "^a_, b$", reductions=["abs_max"])
    assert [(need.collection, need.regex) for need in needs] == [
        ("weights", ""),
        ("mine", ""),
        ("tensors matching ^a_", "^a_"),
        ("tensors matching b$", "b$"),
    ]
    assert {need.reductions for need in needs} == {("abs_max",)}


def test_naming_nothing_means_all_only_where_a_rule_says_so():
    assert chosen_needs(None, None) == chosen_needs("", " , ") == []
    assert chosen_or_all_needs(None, None) == [Need(collection="all")]
    assert chosen_or_all_needs("weights", None) == [Need(collection="weights")]


@pytest.mark.parametrize("regex", ["(", "a{2,1}", "fine,*broken"])
def test_an_expression_that_is_none_is_shown_with_its_fault(regex):
    with pytest.raises(RuleInvalid, match="not a valid regular expression"):
        chosen_needs(None, regex)


def test_a_tensor_that_several_needs_name_is_looked_at_once_for_each_worker():
    run = Run().save(0, {"Net_fc.weight": [1.0], "Net_fc.bias": [1.0]})
    run.save(0, {"Net_fc.weight": [2.0]}, worker="worker_1")
    found = union(run.at(0), chosen_needs("weights,all", "weight,fc"))
    assert sorted((tensor.name, tensor.worker) for tensor in found) == [
        ("Net_fc.bias", "worker_0"),
        ("Net_fc.weight", "worker_0"),
        ("Net_fc.weight", "worker_1"),
    ]


def test_a_role_is_looked_for_by_class_unless_an_expression_takes_its_place():
    role = Need(collection="r", module_classes=("ReLU",), fallback_regex=".*relu_output")
    assert role_needs(role, ".*relu_output") == [role]
    assert [need.regex for need in role_needs(role, "act,relu")] == ["act", "relu"]

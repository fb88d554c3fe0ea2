"""`stoker.notebook.rules_environment`: the SDK's rules as variables that the container reads back.

The classes here have what the SDK's have, no more; the SDK's own are in sdk/test_stock_rules.py.
"""

from __future__ import annotations

import pytest

import stoker.notebook
from stoker.contract.debugger import join_rules
from stoker.debugging.hook.request import read_request
from stoker.debugging.specs import Action, read_specs
from stoker.errors import RuleInvalid


class Rule:
    def __init__(self, name, *, collections=(), actions=None, **parameters):
        self.name = name
        self.rule_parameters = parameters
        self.collection_configs = list(collections)
        self.actions = actions


class ProfilerRule:
    name = "ProfilerReport"
    rule_parameters = {"rule_to_invoke": "ProfilerReport"}  # noqa: RUF012 - as the SDK has it


class CollectionConfig:
    def __init__(self, name, **parameters):
        self.name = name
        self.parameters = parameters or None


class StopTraining:
    def __init__(self, prefix=None):
        self.use_default_training_job_prefix = prefix is None
        # fit() of an earlier job leaves that job's name here.
        given = {"training_job_prefix": prefix or "an-earlier-job"}
        self.action_parameters = {"name": "stoptraining", **given}


class Email:
    action_parameters = {"name": "email", "endpoint": "me@example.com"}  # noqa: RUF012 - as above


class ActionList:
    def __init__(self, *actions):
        self.actions = actions


def builtin(rule="AllZero", name=None, **parts):
    return Rule(name or rule, rule_to_invoke=rule, **parts)


def specs_of(*rules, **parts):
    variables = stoker.notebook.rules_environment(rules, **parts)
    assert all(len(text) <= 512 for text in variables.values())
    return read_specs(join_rules(variables))


def test_rules_are_read_back_as_they_were():
    zero = builtin("AllZero", "Zeros", tensor_regex=".*bias", threshold=50)
    first, second = specs_of(zero, builtin("VanishingGradient"))
    assert (first.name, first.rule) == ("Zeros", "AllZero")
    assert first.parameters == {"tensor_regex": ".*bias", "threshold": "50"}
    assert (second.name, second.rule) == ("VanishingGradient", "VanishingGradient")
    assert not first.is_from_service  # a mistake is to end the job before it costs anything


def test_no_rules_make_no_variables():
    assert stoker.notebook.rules_environment([]) == {}


def test_many_rules_take_many_variables_of_512_characters():
    rules = [builtin("AllZero", f"rule-{n}", tensor_regex=f"{'x' * 90}{n}") for n in range(20)]
    assert [spec.name for spec in specs_of(*rules)] == [rule.name for rule in rules]


def test_a_stop_without_a_prefix_means_the_job_itself():
    rule = builtin("VanishingGradient", actions=ActionList(StopTraining(), Email()))
    rule.rule_parameters["action_json"] = r"[{\"name\": \"stoptraining\"}]"  # of an earlier fit()
    (spec,) = specs_of(rule)
    assert spec.actions == (Action(kind="stop"), Action(kind="email", target="me@example.com"))


def test_one_action_needs_no_list_and_a_prefix_is_kept():
    (spec,) = specs_of(builtin("VanishingGradient", actions=StopTraining("My-Job")))
    assert spec.actions == (Action(kind="stop", target="My-Job"),)


def test_entries_of_the_api_are_taken_as_well():
    entry = {
        "RuleConfigurationName": "Zeros",
        "RuleEvaluatorImage": "any",
        "RuleParameters": {"rule_to_invoke": "AllZero", "collection_names": "weights"},
    }
    (spec,) = specs_of(entry)
    assert (spec.name, spec.rule, spec.parameters) == (
        *("Zeros", "AllZero", {"collection_names": "weights"}),
    )


def test_a_custom_rule_of_the_source_directory_is_named_by_its_path(tmp_path):
    (tmp_path / "src/rules").mkdir(parents=True)
    file = tmp_path / "src/rules/mine.py"
    file.write_text("import smdebug.not_here\n\nclass Mine:\n    pass\n")
    rule = Rule("Mine", source_s3_uri=str(file), rule_to_invoke="Mine", limit="3")
    (spec,) = specs_of(rule, source_dir=tmp_path / "src")
    assert (spec.rule, spec.source) == ("rules/mine.py:Mine", "")
    assert spec.parameters == {"limit": "3"}


def test_a_custom_rule_on_s3_stays_there():
    (spec,) = specs_of(Rule("Mine", source_s3_uri="s3://bucket/mine.py", rule_to_invoke="Mine"))
    assert (spec.rule, spec.source) == ("Mine", "s3://bucket/mine.py")


def refused(*rules, **parts):
    with pytest.raises(RuleInvalid) as caught:
        stoker.notebook.rules_environment(rules, **parts)
    assert caught.value.fix
    return str(caught.value)


def test_a_source_elsewhere_is_refused(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("class Mine: ...\nclass Other: ...\n")
    (tmp_path / "src").mkdir()
    rule = Rule("Mine", source_s3_uri=str(file), rule_to_invoke="Mine")
    assert "rule Mine: its source" in refused(rule, source_dir=tmp_path / "src")
    assert "must be in the source directory" in refused(rule)
    missing = Rule("Mine", source_s3_uri=str(tmp_path / "none.py"), rule_to_invoke="Mine")
    assert "is not a file" in refused(missing, source_dir=tmp_path)
    wrong = Rule("Mine", source_s3_uri=str(file), rule_to_invoke="Yours")
    assert "rule_to_invoke is one of: Mine, Other" in refused(wrong, source_dir=tmp_path)
    file.write_text("class Mine(:")
    assert "is not Python" in refused(rule, source_dir=tmp_path)


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ([builtin("AllZeros")], "did you mean AllZero?"),
        ([builtin("VanishingGradient", treshold="1")], "did you mean threshold?"),
        ([builtin("VanishingGradient", threshold="much")], "expected a number"),
        ([builtin("VanishingGradient"), builtin("VanishingGradient")], "two rules are called Van"),
        ([Rule("mine")], "rule mine: it does not say which rule it is"),
        (["VanishingGradient"], "'VanishingGradient' is not a rule"),
        ([None], "None is not a rule"),
        ([ProfilerRule()], "is a rule of the profiler"),
    ],
)
def test_mistakes_are_said_with_what_to_do(rules, text):
    assert text in refused(*rules)


def test_collections_become_what_the_hook_is_asked_for():
    losses = CollectionConfig("losses", save_interval="10", save_histogram="False")
    relu = CollectionConfig("relus", include_regex=".*relu.*output,x", reductions="min,max")
    variables = stoker.notebook.rules_environment(
        [
            builtin("VanishingGradient", collections=[CollectionConfig("gradients")]),
            builtin("LossNotDecreasing", collections=[losses, relu]),
        ]
    )
    asked = {each.collection: each for each in read_request(variables["STOKER_DEBUG"]).wanted}
    assert set(asked) == {"gradients", "losses", "relus"}
    assert asked["losses"].schedules["TRAIN"].save_interval == 10
    assert asked["gradients"].schedules["TRAIN"].save_interval == 500
    assert asked["relus"].regexes == (".*relu.*output", "x")
    assert asked["relus"].reductions == ("min", "max")


def test_what_a_user_says_of_a_collection_wins_over_what_the_sdk_adds():
    by_sdk = builtin("AllZero", "a", tensor_regex="x", collections=[COLLECTION_OF_THE_SDK])
    own = CollectionConfig("weights", save_interval="5")
    by_user = builtin("AllZero", "b", tensor_regex="x", collections=[own])
    for rules in ([by_sdk, by_user], [by_user, by_sdk]):
        variables = stoker.notebook.rules_environment(rules)
        assert variables["STOKER_DEBUG"] == "collections=weights weights.every=5"


COLLECTION_OF_THE_SDK = CollectionConfig("weights", save_interval="500")


def test_collections_that_cannot_be_carried_are_refused():
    five, six = (CollectionConfig("weights", save_interval=n) for n in ("5", "6"))
    rules = [
        builtin("AllZero", name, tensor_regex="x", collections=[each])
        for name, each in (("a", five), ("b", six))
    ]
    assert "want the collection weights saved differently" in refused(*rules)
    blank = CollectionConfig("weights", include_regex="a b")
    rule = builtin("AllZero", tensor_regex="x", collections=[blank])
    assert "include_regex='a b' of the collection weights cannot be carried" in refused(rule)
    long = CollectionConfig("weights", include_regex="x" * 600)
    rule = builtin("AllZero", tensor_regex="x", collections=[long])
    assert "take more than 512 characters" in refused(rule)

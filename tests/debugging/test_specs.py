"""Rules as people and the SDK write them: three forms, one meaning, mistakes with their cure."""

import json
import textwrap
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.debugging.evaluate import WatchedRule
from stoker.debugging.need import Need
from stoker.debugging.rule import Rule, parameter
from stoker.debugging.specs import (
    MOST_RULES,
    Action,
    RuleSpec,
    check_specs,
    describe_needs,
    make_needs,
    make_rule,
    read_project_specs,
    read_specs,
    write_specs,
)
from stoker.debugging.specs.making import QUICK_PARAMETERS, quicken_needs
from stoker.errors import RuleInvalid

# What sagemaker 2.x sends for ActionList(StopTraining("Job-1"), Email(…), SMS(…)): the
# backslashes are part of the value.
SDK_ACTIONS = (
    r"[{\"name\": \"stoptraining\", \"training_job_prefix\": \"Job-1\"}, "
    r"{\"endpoint\": \"abc@abc.com\", \"name\": \"email\"}, "
    r"{\"endpoint\": \"+1234567890\", \"name\": \"sms\"}]"
)


def of_service(name="Vanishing", **parameters: str) -> str:
    settings = {"rule_to_invoke": "VanishingGradient", **parameters}
    return json.dumps([{"RuleConfigurationName": name, "RuleParameters": settings}])


class Large(Rule):
    threshold: float = parameter(1.0, "how large", minimum=0)

    def needs(self):
        return [Need(collection="gradients"), Need(collection="losses")]


@pytest.fixture
def catalogue(monkeypatch):
    monkeypatch.setattr("stoker.debugging.rules.CATALOGUE", {"Large": Large}, raising=False)


def test_the_short_form_says_rules_settings_and_actions():
    first, second = read_specs("VanishingGradient, LossNotDecreasing(num_steps=5, stop, quick)")
    assert first == RuleSpec(name="VanishingGradient", rule="VanishingGradient")
    assert second.parameters == {"num_steps": "5"}
    assert second.actions == (Action(kind="stop"),)
    assert second.preset == "quick"


def test_values_with_commas_and_parentheses_stand_in_quotes_and_keep_their_backslashes():
    (spec,) = read_specs(r"""AllZero(tensor_regex="conv(1|2),\d \"x\"", name='it, and')""")
    assert spec.parameters == {"tensor_regex": r'conv(1|2),\d "x"'}
    assert spec.name == "it, and"


def test_a_class_of_the_users_is_called_by_its_last_name():
    (spec,) = read_specs("rules/mine.py:Large(threshold=3)")
    assert (spec.name, spec.rule) == ("Large", "rules/mine.py:Large")


def test_lines_and_semicolons_separate_rules_too():
    assert [s.name for s in read_specs("AllZero\nOverfit; Confusion,\n")] == [
        "AllZero",
        "Overfit",
        "Confusion",
    ]


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("AllZero(", "rule AllZero, character 9", "expected a setting"),
        ("Overfit, AllZero(x)", "rule AllZero, character 18", "'x' has no value"),
        ("AllZero(x=1", "rule AllZero, character 12", "closing parenthesis"),
        ("AllZero(x=1)Overfit", "rule AllZero, character 13", "expected a comma"),
        ("AllZero(x=1, x=2)", "rule AllZero", "x is set twice"),
        ("(", "character 1", "expected the name of a rule"),
        ("AllZero(email=me)", "rule AllZero", "email wants an address"),
        ("AllZero(sms=0170)", "rule AllZero", "sms wants a phone number"),
        ("AllZero(webhook=ftp://x)", "rule AllZero", "webhook wants an http"),
        ("AllZero(preset=slow)", "rule AllZero", "there is no preset 'slow'"),
        ("AllZero(stop=perhaps)", "rule AllZero", "stop is 'perhaps'"),
        ("[{]", "", "start like JSON, but are not valid"),
        ("[7]", "entry 0", "has no RuleConfigurationName"),
    ],
)
def test_a_mistake_is_told_with_its_rule_its_place_and_a_fix(text, place, what):
    with pytest.raises(RuleInvalid) as told:
        read_specs(text)
    assert place in told.value.message
    assert what in told.value.message
    assert told.value.fix


def test_the_services_json_is_understood():
    text = of_service(threshold="1e-8", base_trial="s3://bucket/tensors", other_trial_1="s3://b/1")
    (spec,) = read_specs(text)
    assert spec == RuleSpec(
        name="Vanishing",
        rule="VanishingGradient",
        parameters={"threshold": "1e-8"},
        other_trials=("s3://b/1",),
        is_from_service=True,
    )


@pytest.mark.parametrize("text", [SDK_ACTIONS, SDK_ACTIONS.replace("\\", "")])
def test_action_json_is_read_with_and_without_its_backslashes_and_keeps_capitals(text):
    (spec,) = read_specs(of_service(action_json=text))
    assert spec.actions == (
        Action(kind="stop", target="Job-1"),
        Action(kind="email", target="abc@abc.com"),
        Action(kind="sms", target="+1234567890"),
    )


def test_action_json_may_be_one_object():
    (spec,) = read_specs(of_service(action_json='{"name": "email", "endpoint": "a.b@c.org"}'))
    assert spec.actions == (Action(kind="email", target="a.b@c.org"),)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('[{"name": "stoptraining"}]', "no training_job_prefix"),
        ('[{"name": "email"}]', "email wants an address"),
        ('[{"name": "sms", "endpoint": ""}]', "sms wants a phone number"),
        ('[{"name": "dance"}]', "there is no action 'dance'"),
        ("[7]", "has no name"),
        ("{stop", "is not JSON"),
    ],
)
def test_an_impossible_action_is_the_fault_of_its_rule_not_skipped(text, what):
    (spec,) = read_specs(of_service(action_json=text))
    assert what in spec.fault
    with pytest.raises(RuleInvalid, match="rule Vanishing: ") as told:
        make_rule(spec)
    assert what in told.value.message


@pytest.mark.parametrize("parameters", ["many", {"threshold": 3}, ["a"]])
def test_parameters_that_are_not_texts_are_the_fault_of_their_rule(parameters):
    (spec,) = read_specs(
        json.dumps([{"RuleConfigurationName": "V", "RuleParameters": parameters}])
    )
    assert "all texts" in spec.fault


def test_a_rule_of_the_service_that_names_none_is_at_fault():
    (spec,) = read_specs('[{"RuleConfigurationName": "V"}]')
    assert "which rule it is" in spec.fault


def test_more_rules_than_the_service_takes_are_refused():
    names = ", ".join(f"R{n}" for n in range(MOST_RULES + 1))
    with pytest.raises(RuleInvalid, match=f"at most {MOST_RULES}"):
        read_specs(names)


def test_names_are_unique():
    with pytest.raises(RuleInvalid, match="two rules are called 'AllZero'"):
        read_specs("AllZero(threshold=1), AllZero")
    assert len(read_specs("AllZero(threshold=1), AllZero(name=Other)")) == 2


def write_toml(folder, text):
    (folder / "stoker.toml").write_text(textwrap.dedent(text))


def test_stoker_toml_says_the_same(tmp_path):
    write_toml(
        tmp_path,
        """
        [other]
        x = 1
        [rules]
        VanishingGradient = true
        AllZero = false
        LossNotDecreasing = { num_steps = 5, stop = true, preset = "quick" }
        [rules.gradients]
        rule = "mine.py:Large"
        threshold = 3.5
        email = ["a@b.org", "c@d.org"]
        """,
    )
    first, second, third = read_project_specs("", tmp_path)
    assert first == RuleSpec(name="VanishingGradient", rule="VanishingGradient")
    assert (second.preset, second.actions) == ("quick", (Action(kind="stop"),))
    assert third.rule == "mine.py:Large"
    assert third.parameters == {"threshold": "3.5"}
    assert [action.target for action in third.actions] == ["a@b.org", "c@d.org"]


def test_the_variable_wins_over_the_file(tmp_path):
    write_toml(tmp_path, "[rules]\nAllZero = { threshold = 90 }\nOverfit = true\n")
    specs = read_project_specs("AllZero(threshold=50)", tmp_path)
    assert [spec.name for spec in specs] == ["AllZero", "Overfit"]
    assert specs[0].parameters == {"threshold": "50"}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[rules\n", "is not TOML"),
        ("rules = 3\n", "[rules] is 3"),
        ("[rules]\nAllZero = 3\n", "[rules] AllZero is 3"),
        ("[rules]\nAllZero = { when = 2026-11-16 }\n", "AllZero: when is"),
        ("[rules]\nAllZero = { email = 'me' }\n", "[rules] AllZero: email wants an address"),
    ],
)
def test_a_mistake_in_stoker_toml_is_told_with_its_place(tmp_path, text, what):
    write_toml(tmp_path, text)
    with pytest.raises(RuleInvalid) as told:
        read_project_specs("", tmp_path)
    assert what in told.value.message
    assert told.value.fix


@pytest.mark.usefixtures("catalogue")
def test_a_rule_is_made_with_its_parameters():
    (spec,) = read_specs("Large(threshold=2.5)")
    assert make_rule(spec).threshold == 2.5


@pytest.mark.usefixtures("catalogue")
@pytest.mark.parametrize("name", ["Larg", "large", "LARGE"])
def test_an_unknown_rule_is_told_with_the_near_miss(name):
    with pytest.raises(RuleInvalid, match=f"rule {name}: there is no rule") as told:
        make_rule(read_specs(name)[0])
    assert "did you mean Large?" in told.value.fix


class Broken(Large):
    def needs(self):
        return [][1]


def test_a_rule_with_a_mistake_of_its_own_is_told_with_the_line(monkeypatch):
    monkeypatch.setattr("stoker.debugging.rules.CATALOGUE", {"Broken": Broken})
    specs = describe_needs(read_specs("Broken"))
    with pytest.raises(RuleInvalid, match=r"rule Broken: the rule raised IndexError.*, line \d+"):
        check_specs(specs)
    assert make_needs(read_specs("Broken")) == []


@pytest.mark.parametrize(
    ("needs", "what"),
    [
        ('["losses"]', "its needs() returns 'losses', but a list of Need is expected"),
        ("None", "its needs() returns None"),
        ('[Need(collection="x", regex="(")]', "it needs tensors named like '(': missing )"),
    ],
)
def test_needs_that_are_none_are_refused_before_any_step(tmp_path, needs, what):
    (tmp_path / "mine.py").write_text(
        "from stoker import Need, Rule\n"
        "class Mine(Rule):\n"
        f"    def needs(self):\n        return {needs}\n"
    )
    for text in ("mine.py:Mine", "mine.py:Mine(quick)"):
        (described,) = describe_needs(read_specs(text), code_dir=tmp_path)
        assert what in described.fault
        assert "\n  fix: " in described.fault
        watched = WatchedRule(replace(described, fault=""), code_dir=tmp_path)
        assert watched.status.status == "Error"


@pytest.mark.usefixtures("catalogue")
def test_what_the_hook_saves_is_known_without_making_the_rule_again(monkeypatch):
    specs = describe_needs(read_specs("Large, Larg(quick)"))
    assert make_needs(specs) == [Need(collection="gradients"), Need(collection="losses")]
    monkeypatch.setattr("stoker.debugging.rules.CATALOGUE", {})
    again = read_specs(write_specs(specs))
    assert make_needs(again) == make_needs(specs)


@pytest.mark.usefixtures("catalogue")
def test_two_rules_that_need_the_same_need_it_once():
    assert len(make_needs(read_specs("Large, Large(name=second, threshold=3)"))) == 2


@pytest.mark.usefixtures("catalogue")
def test_a_quick_rule_has_its_tensors_saved_often_and_losses_always():
    assert make_needs(read_specs("Large(quick)")) == [
        Need(collection="gradients", save_interval=10),
        Need(collection="losses", save_interval=1),
    ]


def test_an_interval_that_a_rule_asks_for_itself_stays():
    need = Need(collection="gradients", save_interval=3)
    assert quicken_needs("Large", [need]) == [need]


@pytest.mark.parametrize("rule", QUICK_PARAMETERS)
def test_what_the_quick_preset_sets_is_taken_by_the_rule_and_gives_way_to_the_user(rule):
    (spec,) = read_specs(f"{rule}(quick)")
    for name, text in QUICK_PARAMETERS[rule].items():
        assert getattr(make_rule(spec), name) == int(text)
        (own,) = read_specs(f"{rule}(quick, {name}=77)")
        assert getattr(make_rule(own), name) == 77


@pytest.mark.usefixtures("catalogue")
def test_all_mistakes_of_a_job_are_told_at_once_but_not_those_of_the_service():
    ours = describe_needs(read_specs("Larg, Large(threshold=-1), Large(name=fine)"))
    with pytest.raises(RuleInvalid) as told:
        check_specs(ours)
    assert "rule Larg: there is no rule" in told.value.message
    assert "rule Large: parameter threshold is '-1'" in told.value.message
    check_specs(describe_needs(read_specs(of_service(nonsense="1"))))


@pytest.mark.parametrize(
    "text",
    [
        "AllZero(webhook=https://x.org/s3cret,s3cret)",
        "AllZero(webhook=https://x.org?s3cret(s3cret))",
        "AllZero(webhook=x.org/s3cret)",
        "AllZero(webhook=https://x.org:port/s3cret)",
        "AllZero(webhook=https://x.org:99999/s3cret)",
        "AllZero(webhook='https://x.org/a s3cret')",
        "AllZero(webhook=https://x.org/ä-s3cret)",
    ],
)
def test_a_mistake_in_a_webhook_does_not_show_its_secret(text):
    with pytest.raises(RuleInvalid) as caught:
        read_specs(text)
    assert "rule AllZero" in str(caught.value)
    assert "s3cret" not in str(caught.value)


TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
ACTIONS = st.lists(
    st.sampled_from(
        [
            Action(kind="stop"),
            Action(kind="stop", target="Job-1"),
            Action(kind="email", target="a.b@c.org"),
            Action(kind="webhook", target="https://x.org:8/?a=b:c"),
        ]
    ),
    unique=True,
    max_size=3,
).map(tuple)


@given(
    st.builds(
        RuleSpec,
        name=TEXT.filter(bool),
        rule=TEXT.filter(bool),
        parameters=st.dictionaries(st.sampled_from(["threshold", "num_steps", ""]), TEXT),
        actions=ACTIONS,
        preset=st.sampled_from(["", "quick"]),
        source=TEXT,
        other_trials=st.lists(TEXT, max_size=12).map(tuple),
        is_dry_run=st.booleans(),
        is_from_service=st.booleans(),
        needs=st.sampled_from([None, (), (Need(collection="c", module_classes=("A", "B")),)]),
        fault=TEXT,
    )
)
@settings(max_examples=30, deadline=None)
def test_what_was_written_is_read_back_the_same(spec):
    assert read_specs(write_specs([spec])) == [spec]


@given(st.text("AllZero(),;=\"'\\ \n:stop5.", max_size=30))
@settings(max_examples=100, deadline=None)
def test_any_text_is_either_read_or_refused_with_a_fix(text):
    try:
        specs, fix = read_specs(text), "none needed"
    except RuleInvalid as error:
        specs, fix = [], error.fix
    assert fix
    assert all(spec.name and spec.rule for spec in specs)

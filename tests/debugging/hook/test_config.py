"""debughookconfig.json and STOKER_DEBUG, and what they mean together with the needs of rules."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.debugging.description import Description
from stoker.debugging.hook.config import HookConfig, default_config, read_hook_config
from stoker.debugging.hook.forms import Forms, Table
from stoker.debugging.hook.request import is_off, merge, read_request
from stoker.debugging.hook.wanted import is_due, with_needs
from stoker.debugging.need import Need
from stoker.debugging.tensors.collection import Schedule
from stoker.errors import ConfigInvalid

GRADIENT = Description(name="gradient/Net_fc.weight", kind="gradient")
WEIGHT = Description(name="Net_fc.weight", kind="weight")
LOSS = Description(name="CrossEntropyLoss_output_0", kind="loss", is_of_loss=True)


def collection(name: str, **parameters: str) -> dict[str, object]:
    return {"CollectionName": name, "CollectionParameters": parameters}


def steps_of(config: HookConfig, name: str, mode: str = "TRAIN", until: int = 12) -> list[int]:
    wanted = [entry for entry in config.wanted if entry.collection == name]
    return [s for s in range(until) if any(entry.is_due(mode, s) for entry in wanted)]


@pytest.mark.parametrize(
    "content",
    [{}, {"HookParameters": None, "CollectionConfigurations": None}, {"LocalPath": "/x"}],
)
def test_losses_every_500_steps_are_what_nobody_asked_for(content):
    (wanted,) = read_hook_config(content).wanted
    assert wanted.collection == "losses"
    assert steps_of(read_hook_config(content), "losses", until=1001) == [0, 500, 1000]
    assert wanted.matches(LOSS)
    assert not wanted.matches(WEIGHT)


def test_the_key_of_a_mode_wins_and_that_of_a_collection_over_the_hooks():
    config = read_hook_config(
        {
            "HookParameters": {"save_interval": "4", "eval.save_interval": "2"},
            "CollectionConfigurations": [
                collection("weights"),
                collection("biases", save_interval="3", start_step="1", end_step="9"),
                collection("gradients", **{"train.save_interval": "5", "save_steps": "1, 2"}),
            ],
        }
    )
    assert steps_of(config, "losses") == [0, 4, 8]
    assert steps_of(config, "weights", "EVAL") == [0, 2, 4, 6, 8, 10]
    assert steps_of(config, "biases") == [3, 6]
    assert steps_of(config, "biases", "EVAL") == [3, 6]
    assert steps_of(config, "gradients") == [0, 1, 2, 5, 10]
    assert steps_of(config, "gradients", "EVAL") == []


def test_reductions_take_the_place_of_values_unless_both_are_wanted():
    config = read_hook_config(
        {
            "HookParameters": {"reductions": "mean"},
            "CollectionConfigurations": [
                collection("weights"),
                collection("biases", reductions="min, max", save_raw_tensor="True"),
                collection("gradients", reductions="abs_mean", save_shape="true"),
            ],
        }
    )
    form = {w.collection: (w.reductions, w.has_values, w.has_shapes) for w in config.wanted}
    assert form == {
        "losses": ((), True, False),
        "weights": (("mean",), False, False),
        "biases": (("min", "max"), True, False),
        "gradients": (("abs_mean",), False, True),
    }


def test_all_mistakes_of_a_file_are_told_at_once():
    with pytest.raises(ConfigInvalid) as caught:
        read_hook_config(
            {
                "HookParameters": {"include_workers": "two"},
                "CollectionConfigurations": [
                    collection("weights", reductions="men", save_interval="x"),
                    collection("mine", include_regex="(", end_step="-1"),
                    {},
                ],
            }
        )
    for text in (
        "include_workers 'two': expected one or all",
        "did you mean mean?",
        "save_interval 'x': expected a whole number",
        "include_regex '(', which is not a valid",
        "end_step '-1'",
        "a collection without CollectionName",
    ):
        assert text in caught.value.message


def test_what_is_not_known_is_a_warning_and_the_rest_is_saved():
    config = read_hook_config(
        {
            "HookParameters": {"save_intervall": "1"},
            "CollectionConfigurations": [
                collection("weights", norms="l2"),
                collection("feature_importance", save_interval="500"),
            ],
        }
    )
    assert [w.collection for w in config.wanted] == ["losses", "weights", "feature_importance"]
    assert config.warnings == (
        "debughookconfig.json: HookParameters does not know 'save_intervall',"
        " did you mean save_interval?",
        "debughookconfig.json: collection weights does not know 'norms', it is left out",
    )
    assert merge(config, read_request("every=1")).warnings == config.warnings


def test_a_collection_without_tensors_makes_no_step_due():
    config = read_hook_config(
        {
            "HookParameters": {"save_interval": "10"},
            "CollectionConfigurations": [collection("labels", save_interval="1")],
        }
    )
    table = Table(config.wanted)
    assert table.due("TRAIN", 0).of(LOSS) is not None
    assert table.due("TRAIN", 1) is None
    assert table.nameless() == ["labels"]
    # A rule may know what belongs to it: then its settings are those of the rule's need.
    need = Need(collection="labels", of_loss=True, side="input", position=1)
    assert not Table(with_needs(config.wanted, [need], config.schedules)).nameless()


@pytest.mark.parametrize("content", [{"HookParameters": []}, {"CollectionConfigurations": {}}])
def test_what_is_not_an_object_or_list_is_refused(content):
    with pytest.raises(ConfigInvalid, match="expected"):
        read_hook_config(content)


def test_a_request_says_the_same_in_one_line():
    request = read_request(
        "collections=gradients,relu every=100 eval.every=1 gradients.reductions=abs_mean,max "
        "relu.regex=relu.*output relu.start=2 workers=all full=drop memory=2GB"
    )
    file = read_hook_config(
        {
            "HookParameters": {
                "save_interval": "100",
                "eval.save_interval": "1",
                "include_workers": "all",
            },
            "CollectionConfigurations": [
                collection("gradients", reductions="abs_mean,max"),
                collection("relu", include_regex="relu.*output", start_step="2"),
            ],
        }
    )
    assert request == replace(file, when_full="drop", limit_bytes=2 * 10**9)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("losses", "'losses' is not a setting"),
        ("every=", "'every=' is not a setting"),
        ("evry=3", "did you mean every?"),
        ("every=x", "save_interval 'x'"),
        ("every=0", "save_interval 0"),
        ("full=never", "expected wait or drop"),
        ("memory=much", "expected a size"),
    ],
)
def test_a_request_that_cannot_be_read_shows_one_that_can(text, message):
    with pytest.raises(ConfigInvalid) as caught:
        read_request(text)
    assert message in caught.value.message
    assert 'STOKER_DEBUG="collections=losses,gradients every=100"' in caught.value.fix


def test_a_request_adds_to_the_file_and_can_switch_everything_off():
    both = merge(default_config("weights", every=7), read_request("collections=biases full=drop"))
    assert {w.collection for w in both.wanted} == {"losses", "weights", "biases"}
    assert both.when_full == "drop"
    assert both.schedules["TRAIN"].save_interval == 7
    assert is_off(" OFF ")
    assert not is_off("collections=losses")


@settings(deadline=None)  # the first one imports smdebug
@given(
    st.builds(
        Schedule,
        save_interval=st.integers(1, 9),
        start_step=st.integers(0, 9),
        end_step=st.none() | st.integers(0, 30),
        save_steps=st.lists(st.integers(0, 30), max_size=3).map(tuple),
    ),
    st.integers(0, 40),
)
def test_a_schedule_is_smdebugs(schedule, step):
    save_config = pytest.importorskip("smdebug.core.save_config")
    stock = save_config.SaveConfigMode(
        schedule.save_interval, schedule.start_step, schedule.end_step, list(schedule.save_steps)
    )
    assert is_due(schedule, step) == stock.should_save_step(step)


def test_a_need_without_an_interval_follows_the_collection_of_its_name():
    needs = [Need(collection="gradients", reductions=("abs_mean",)), Need(collection="weights")]
    config = read_hook_config(
        {
            "HookParameters": {"save_interval": "6"},
            "CollectionConfigurations": [collection("gradients", save_interval="5")],
        }
    )
    config = replace(config, wanted=with_needs(config.wanted, needs, config.schedules))
    assert steps_of(config, "gradients") == [0, 5, 10]
    assert steps_of(config, "weights") == [0, 6]


def test_the_cheapest_form_that_satisfies_all_is_saved():
    needs = [
        Need(collection="gradients", reductions=("abs_mean",)),
        Need(collection="gradients", reductions=("abs_mean", "max")),
    ]
    only_rules = with_needs((), needs, HookConfig().schedules)
    assert Forms(only_rules).of(GRADIENT)[:2] == (False, ("abs_mean", "max"))
    assert Forms(only_rules).of(WEIGHT) is None
    # A collection asks for the values: then rules make their numbers from them.
    with_values = with_needs(default_config("gradients").wanted, needs, HookConfig().schedules)
    assert Forms(with_values).of(GRADIENT)[:2] == (True, ())


def test_collections_of_one_name_are_listed_as_one():
    needs = [Need(collection="gradients", reductions=("max",), save_interval=3)]
    table = Table(with_needs(default_config("gradients").wanted, needs, HookConfig().schedules))
    table.enlist(GRADIENT)
    found = {c.name: c for c in table.collections()}
    assert found["gradients"].tensor_names == (GRADIENT.name,)
    assert found["gradients"].save_raw_tensor
    assert table.due("TRAIN", 3) is not None
    assert table.due("TRAIN", 4) is None
    assert table.due("EVAL", 3) is None


def test_a_collection_that_is_named_twice_is_saved_as_both_ask():
    """The SDK adds what a rule needs to what the user asked for, in no order."""
    for_user, for_rule = collection("gradients", save_interval="5"), collection("gradients")
    for entries in ([for_user, for_rule], [for_rule, for_user]):
        config = read_hook_config({"CollectionConfigurations": entries})
        assert steps_of(config, "gradients") == [0, 5, 10]
        table = Table(config.wanted)
        form = table.due("TRAIN", 0).of(GRADIENT)
        assert form.has_values
        assert [made.name for made in table.collections()].count("gradients") == 1


@pytest.mark.parametrize(
    ("hook", "own", "expected"),
    [
        ({}, {}, ()),
        ({}, {"save_histogram": "True"}, ("gradients",)),
        ({"save_histogram": "true"}, {}, ("gradients",)),
        ({"export_tensorboard": "true"}, {}, ("gradients",)),
        ({"export_tensorboard": "true"}, {"save_histogram": "False"}, ()),
    ],
)
def test_histograms_are_made_where_they_are_asked_for(hook, own, expected):
    entries = [collection("gradients", **own)]
    config = read_hook_config({"HookParameters": hook, "CollectionConfigurations": entries})
    assert Table(config.wanted).due("TRAIN", 0).of(GRADIENT).histograms == expected


def test_a_request_asks_for_histograms_of_all_or_of_one_collection():
    for text, expected in (
        ("collections=gradients", ()),
        ("collections=gradients histograms=yes", ("gradients",)),
        ("gradients.histograms=yes", ("gradients",)),
    ):
        assert Table(read_request(text).wanted).due("TRAIN", 0).of(GRADIENT).histograms == expected

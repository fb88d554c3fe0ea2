"""Collections that stay empty: who is told of it, and that nothing else is lost."""

from __future__ import annotations

from torch import nn

from stoker.debugging.hook.attach import attach
from stoker.debugging.hook.config import default_config, read_hook_config
from stoker.debugging.hook.request import read_request
from stoker.debugging.need import Need
from stoker.debugging.tensors.saved_tensors import SavedTensors

from .trainings import Net, fit, plain_loss


def test_a_regex_that_matches_nothing_is_told(tmp_path, capsys):
    config = read_request("collections=losses every=1 mine.regex=no_such_layer full=wait")
    needs = [
        Need(collection="tanh_in", module_classes=("Tanh",), side="input"),
        Need(collection="maybe", module_classes=("Tanh",), is_optional=True),
    ]
    with attach(config, tmp_path, needs=needs):
        fit(Net(), plain_loss)
    error = capsys.readouterr().err
    assert "collection mine is empty: no tensor matches no_such_layer" in error
    assert "collection tanh_in is empty" in error
    assert "maybe" not in error
    assert error.count("[stoker] warning") == 2


def test_a_collection_is_empty_only_if_none_who_asked_for_it_found_anything(tmp_path, capsys):
    """dead_relu() and the like add MXNet's names; our rules ask by the class of the module."""
    added = [
        {"CollectionName": name, "CollectionParameters": {"include_regex": regex}}
        for name, regex in (("custom_relu_collection", ".*relu_output"), ("tanh", ".*tanh_output"))
    ]
    config = read_hook_config(
        {"HookParameters": {"save_interval": "1"}, "CollectionConfigurations": added}
    )
    needs = [
        Need(collection="custom_relu_collection", module_classes=("ReLU",)),
        Need(collection="tanh", module_classes=("Tanh",)),
    ]
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3), nn.ReLU())
    with attach(config, tmp_path, needs=needs):
        fit(model, plain_loss)
    error = capsys.readouterr().err
    assert "custom_relu_collection" not in error
    assert error.count("collection tanh is empty: no tensor matches .*tanh_output") == 1
    assert error.count("[stoker] warning") == 1


def test_collections_that_the_sdk_adds_for_xgboost_cost_nothing_but_a_line(tmp_path, capsys):
    """create_xgboost_report() and feature_importance_overweight() add these to any estimator's."""
    names = ("metrics", "hyperparameters", "predictions", "labels", "feature_importance")
    added = [
        {"CollectionName": name, "CollectionParameters": {"save_interval": "500"}}
        for name in (*names, "gradient")
    ]
    asked = {"CollectionName": "losses", "CollectionParameters": {"save_interval": "1"}}
    with attach(read_hook_config({"CollectionConfigurations": [asked, *added]}), tmp_path):
        fit(Net(), plain_loss)
    saved = SavedTensors(tmp_path)
    assert list(saved.steps()) == [0, 1, 2]
    assert saved.collections.keys() >= {"losses", *names}
    error = capsys.readouterr().err
    for name in names:
        assert f"collection {name} stays empty: it is for XGBoost" in error
    assert "collection gradient stays empty" in error
    assert "did you mean gradients?" in error
    assert error.count("[stoker] warning") == len(added)


def test_a_loss_made_by_hand_is_told(tmp_path, capsys):
    with attach(default_config(every=1), tmp_path):
        fit(Net(), lambda model, images, _: model(images).pow(2).mean())
    assert "no loss was saved" in capsys.readouterr().err

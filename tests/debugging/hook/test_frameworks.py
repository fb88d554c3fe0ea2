"""Loops that others write: torch.compile, Lightning, Hugging Face's Trainer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from stoker.debugging.hook.attach import attach
from stoker.debugging.hook.config import read_hook_config
from stoker.debugging.tensors.saved_tensors import SavedTensors

from .framework_trainings import compiled, lightning_fit, trainer_fit
from .trainings import Net, Weights, batch, fit, plain_loss

EVERYTHING = {"HookParameters": {"save_all": "true", "save_interval": "2"}}
# They warn about workers, loggers and old calls of their own.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _environment_is_restored():
    before = dict(os.environ)
    yield
    os.environ.clear()  # both libraries leave notes for processes they might start
    os.environ.update(before)


def names_at(folder: Path, step: int) -> set[str]:
    saved = SavedTensors(folder)
    return {tensor.name for tensor in saved.at(step).needed("all")}


def assert_equal(without: Weights, with_hook: Weights) -> None:
    assert len(without) == len(with_hook) > 0
    for one, other in zip(without, with_hook, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("how", ["wrapped", "in place", "wrapped with its loss"])
def test_a_compiled_model_is_saved_in_one_graph_as_before(tmp_path, how):
    without, graphs = compiled(how)
    with attach(read_hook_config(EVERYTHING), tmp_path):
        with_hook, graphs_with_hook = compiled(how)
    assert_equal(without, with_hook)
    assert graphs_with_hook == graphs == 1
    root, loss = (
        ("NetWithLoss", "NetWithLoss_loss") if "loss" in how else ("Net", "cross_entropy_loss")
    )
    wanted = {f"{root}_fc.weight", f"gradient/{root}_fc.weight", f"{loss}_output_0"}
    assert wanted <= names_at(tmp_path, 2)


def test_a_part_that_is_compiled_is_seen_from_outside(tmp_path):
    class Partly(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = torch.compile(
                nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU()), backend="aot_eager"
            )
            self.head = nn.Linear(8, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.body(x))

    with attach(read_hook_config(EVERYTHING), tmp_path):
        fit(Partly(), plain_loss)
    names = names_at(tmp_path, 0)
    assert {"body_output_0", "head_input_0", "Partly_body.1.weight"} <= names
    assert "body.1_output_0" not in names


def test_scripted_functions_that_use_a_loss_still_compile(tmp_path):
    def loss_of(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(scores, labels) + F.mse_loss(scores, scores)

    scores, labels = torch.randn(4, 3), torch.randint(0, 3, (4,))
    expected = loss_of(scores, labels)
    with attach(read_hook_config(EVERYTHING), tmp_path):
        assert torch.equal(torch.jit.script(loss_of)(scores, labels), expected)
        traced = torch.jit.trace(Net().eval(), batch()[0])
    assert "copy_" not in str(traced.graph)


def test_lightning_trains_as_before_and_is_saved(tmp_path):
    without = lightning_fit(tmp_path)
    with attach(read_hook_config(EVERYTHING), tmp_path / "tensors"):
        with_hook = lightning_fit(tmp_path)
    assert_equal(without, with_hook)
    saved = SavedTensors(tmp_path / "tensors")
    # Two steps check the validation, four train, two validate.
    assert [saved.at(step).mode for step in saved.steps()] == ["EVAL", "TRAIN", "TRAIN", "EVAL"]
    first_training = saved.steps("TRAIN")[0]
    names = names_at(tmp_path / "tensors", first_training)
    wanted = {"cross_entropy_loss_output_0", "net.relu_output_0", "gradient/Module_net.fc.weight"}
    assert wanted <= names
    assert wanted - names_at(tmp_path / "tensors", saved.steps("EVAL")[-1]) == {
        "gradient/Module_net.fc.weight"
    }


def test_the_trainer_of_hugging_face_trains_as_before_and_is_saved(tmp_path, capsys):
    without = trainer_fit(tmp_path)
    with attach(read_hook_config(EVERYTHING), tmp_path / "tensors"):
        with_hook = trainer_fit(tmp_path)
    assert_equal(without, with_hook)
    assert "[stoker] warning" not in capsys.readouterr().err
    saved = SavedTensors(tmp_path / "tensors")
    assert list(saved.steps()) == [0, 2]  # a step is a call of the model, not of the optimizer
    names = names_at(tmp_path / "tensors", 2)
    loss = "cross_entropy_loss_output_0"
    assert {loss, "bert.embeddings.word_embeddings_input_0"} <= names
    assert f"{loss[:-1]}1" not in names  # recomputed, not counted twice
    assert "gradient/BertForSequenceClassification_classifier.weight" in names
    assert saved.descriptions["BertForSequenceClassification_output_0"].is_model

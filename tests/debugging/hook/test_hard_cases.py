"""What scripts do to a hook: errors, threads, compilers, several models, models that change."""

from __future__ import annotations

import copy
import io
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from stoker.debugging.hook.attach import attach
from stoker.debugging.hook.config import read_hook_config
from stoker.debugging.tensors.saved_tensors import SavedTensors
from stoker.errors import ConfigInvalid

EVERYTHING = {"HookParameters": {"save_all": "true", "save_interval": "1"}}


class Net(nn.Module):
    is_ill = False

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.last = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.fc(x)
        if self.is_ill:
            raise ValueError("no memory")
        return self.last(hidden.relu())


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(6, 4), torch.randint(0, 3, (6,))


def train(
    model: nn.Module, loss_of: Callable[..., torch.Tensor] | None = None, steps: int = 2
) -> None:
    loss_of = loss_of or (lambda model, x, labels: F.cross_entropy(model(x), labels))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(model, *batch()).backward()
        optimizer.step()


def names_at(folder: Path, step: int) -> set[str]:
    return {tensor.name for tensor in SavedTensors(folder).at(step).needed("all")}


def hooked(folder: Path):
    return attach(read_hook_config(EVERYTHING), folder)


def test_a_try_again_while_the_error_is_handled_is_saved_as_any_other(tmp_path):
    model, criterion = Net(), nn.CrossEntropyLoss()
    x, labels = batch()
    with hooked(tmp_path):
        model.is_ill = True
        try:
            model(x)
        except ValueError:
            model.is_ill = False
            criterion(model(x[:3]), labels[:3]).backward()
        criterion(model(x), labels).backward()
    assert names_at(tmp_path, 1) == names_at(tmp_path, 2)
    assert {"Net_output_0", "fc_output_0", "CrossEntropyLoss_output_0"} <= names_at(tmp_path, 1)
    assert "fc_output_1" not in names_at(tmp_path, 1)


def test_functional_losses_are_seen_after_a_loss_that_failed(tmp_path):
    model = Net()
    x, labels = batch()
    with hooked(tmp_path):
        with pytest.raises(ValueError, match="batch_size"):
            nn.CrossEntropyLoss()(model(x), labels[:2])
        F.cross_entropy(model(x), labels)
    assert "cross_entropy_loss_output_0" in names_at(tmp_path, 1)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_model_whose_call_was_left_by_an_error_can_be_copied_and_saved(tmp_path, error):
    class Stops(nn.Module):
        def forward(self, x: torch.Tensor) -> None:
            raise error

    model = nn.Sequential(nn.Linear(4, 3), nn.Identity())
    with hooked(tmp_path):
        model(batch()[0])
        model.append(Stops())
        with pytest.raises(error):
            model(batch()[0])
        del model[2]
        file = io.BytesIO()
        torch.save(model, file)
        file.seek(0)
        copies = [copy.deepcopy(model), torch.load(file, weights_only=False)]
    x = batch()[0]
    for made in copies:
        assert torch.equal(made(x), model(x))


def test_of_threads_that_train_at_the_same_time_one_is_followed(tmp_path, capsys):
    models = [nn.Sequential(*(nn.Linear(4, 4) for _ in range(9))) for _ in range(3)]
    errors: list[BaseException] = []
    start = threading.Barrier(3)

    def work(model: nn.Module) -> None:
        try:
            start.wait()
            train(model, steps=30)
        except BaseException as error:
            errors.append(error)

    before = [copy.deepcopy(model.state_dict()) for model in models]
    with hooked(tmp_path):
        threads = [threading.Thread(target=work, args=(model,)) for model in models]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not errors
    assert not torch.nn.modules.module._global_forward_pre_hooks
    assert all(not module._forward_hooks for model in models for module in model.modules())
    for model, state in zip(models, before, strict=True):
        assert not torch.equal(state["0.weight"], model[0].weight)
    assert SavedTensors(tmp_path).steps()
    assert "failed" not in capsys.readouterr().err


def test_a_thread_is_followed_after_a_trial_run_in_another(tmp_path):
    model = Net()
    with hooked(tmp_path):
        model(batch()[0])
        thread = threading.Thread(target=train, args=(model,))
        thread.start()
        thread.join()
    assert "cross_entropy_loss_output_0" in names_at(tmp_path, 2)


@pytest.mark.parametrize("how", ["function", "in place"])
@pytest.mark.filterwarnings("ignore")  # of the compiler's own
def test_what_must_be_one_graph_stays_one(tmp_path, how):
    def run() -> list[torch.Tensor]:
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = Net()
        loss = nn.CrossEntropyLoss()

        def loss_of(model: nn.Module, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            return loss(model(x), labels)

        if how == "in place":
            model.compile(fullgraph=True, backend="aot_eager")
            train(model)
        else:
            train(model, torch.compile(loss_of, fullgraph=True, backend="aot_eager"))
        return list(model.state_dict().values())

    without = run()
    with hooked(tmp_path):
        with_hook = run()
    assert all(map(torch.equal, without, with_hook))


def test_nothing_of_ours_gets_into_a_cuda_graph(tmp_path, monkeypatch):
    """Neither a step nor, in the backward pass, a gradient for the step of the warm-up."""
    model = Net()
    with hooked(tmp_path):
        F.cross_entropy(model(batch()[0]), batch()[1])  # a warm-up that is not finished
        with monkeypatch.context() as graph:
            graph.setattr(torch.cuda, "is_initialized", lambda: True)
            graph.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
            F.cross_entropy(model(batch()[0]), batch()[1]).backward()
        train(model, steps=1)
    assert list(SavedTensors(tmp_path).steps()) == [0, 1]
    assert "gradient/Net_fc.weight" not in names_at(tmp_path, 0)
    assert "fc_output_1" not in names_at(tmp_path, 0)
    assert "gradient/Net_fc.weight" in names_at(tmp_path, 1)


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")
def test_scripted_models_are_saved_from_outside(tmp_path, capsys):
    model = torch.jit.script(nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3)))
    around = nn.Sequential(nn.Linear(4, 4), torch.jit.script(nn.Linear(4, 3)))
    with hooked(tmp_path):
        train(model)
        train(around)
    assert "failed" not in capsys.readouterr().err
    wanted = {"Sequential_0.weight", "gradient/Sequential_0.weight", "cross_entropy_loss_output_0"}
    assert wanted <= names_at(tmp_path, 1)
    assert "gradient/Sequential_1_1.weight" in names_at(tmp_path, 2)


def test_the_input_of_a_module_that_works_in_place_is_what_it_was_given(tmp_path):
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(inplace=True), nn.Linear(5, 3))
    with hooked(tmp_path):
        train(model)
    step = SavedTensors(tmp_path).at(0)
    given, made = step.find("1_input_0").value(), step.find("1_output_0").value()
    assert (given < 0).any()
    assert (given.clip(0) == made).all()
    assert (step.find("0_output_0").value() == given).all()


def test_a_generator_gets_its_gradients_in_the_step_of_the_discriminator(tmp_path):
    makes, judges = nn.Linear(2, 4), Net()
    with hooked(tmp_path):
        for _ in range(2):
            made = makes(torch.randn(6, 2))
            for fake in (made.detach(), made):  # one step each, the second one of both models
                F.cross_entropy(judges(fake), batch()[1]).backward()
    assert "gradient/Linear_weight" not in names_at(tmp_path, 0)
    assert "gradient/Linear_weight" in names_at(tmp_path, 1)


def test_a_network_to_learn_from_in_eval_mode_makes_no_step_of_its_own(tmp_path):
    """Deep Q-learning: the target network is not frozen, it is only not trained."""
    policy, target = Net(), Net().eval()
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    with hooked(tmp_path):
        for _ in range(2):
            states, _labels = batch()
            values = policy(states)
            F.mse_loss(values, target(states).detach()).backward()
            optimizer.step()
        policy.eval()
        policy(states)
        target(states)
    saved = SavedTensors(tmp_path)
    assert [saved.at(step).mode for step in saved.steps()] == ["TRAIN", "TRAIN", "EVAL"]
    wanted = {"mse_loss_output_0", "gradient/Net_fc.weight", "Net_1_output_0"}
    assert wanted <= names_at(tmp_path, 0)
    assert wanted <= names_at(tmp_path, 1)


def test_a_copy_that_is_tried_after_the_optimizer_is_in_eval_mode(tmp_path):
    model = Net()
    average = copy.deepcopy(model).eval()
    with hooked(tmp_path):
        for _ in range(2):
            train(model, steps=1)
            average(batch()[0])
    saved = SavedTensors(tmp_path)
    assert [saved.at(step).mode for step in saved.steps()] == ["TRAIN", "EVAL"] * 2


def test_a_frozen_network_that_is_called_on_and_on_does_not_grow_the_step(tmp_path):
    """A GAN that is scored after a step, as by FID: the judge is frozen, and called for hours."""
    model, judge = Net(), Net().requires_grad_(False).eval()

    def loss_of(model: nn.Module, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        # Before the optimizer it belongs to the step, and so does what comes after it.
        return F.cross_entropy(model(x), labels) + F.mse_loss(judge(x), judge(2 * x))

    with hooked(tmp_path) as hook:
        for _ in range(2):
            train(model, loss_of, steps=1)
            for _ in range(50):
                judge(batch()[0])
            hook.flush()
            assert hook._recorder.open is None
    saved = SavedTensors(tmp_path)
    assert list(saved.steps()) == [0, 1]
    for step in saved.steps():
        names = names_at(tmp_path, step)
        assert {"gradient/Net_fc.weight", "mse_loss_output_0", "Net_1_output_1"} <= names
        assert "Net_1_output_12" not in names


def test_losses_are_known_by_other_names_and_may_hold_the_model(tmp_path, capsys):
    class DiceCriterion(nn.Module):
        def forward(self, scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            return 1 - scores.softmax(1).gather(1, labels[:, None]).mean()

    class WholeLoss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.criterion = Net(), DiceCriterion()

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            return self.criterion(self.net(x), labels)

    criterion = DiceCriterion()
    with hooked(tmp_path / "outside"):
        train(Net(), lambda model, x, labels: criterion(model(x), labels))
    assert "DiceCriterion_loss_output_0" in names_at(tmp_path / "outside", 1)
    with hooked(tmp_path / "inside"):
        train(WholeLoss(), lambda model, x, labels: model(x, labels))
    wanted = {"WholeLoss_output_0", "gradient/WholeLoss_net.fc.weight", "net.fc_output_0"}
    assert wanted <= names_at(tmp_path / "inside", 1)
    assert "warning" not in capsys.readouterr().err


def test_a_model_that_grows_is_saved_as_it_is(tmp_path):
    model = nn.Sequential(nn.LazyLinear(5), nn.Linear(5, 3))
    with hooked(tmp_path):
        model(batch()[0])
        train(model, steps=1)
        model[1] = nn.Linear(5, 4)
        model.append(nn.Linear(4, 3))
        train(model, steps=1)
    assert {"Sequential_0.weight", "gradient/Sequential_0.weight"} <= names_at(tmp_path, 1)
    wanted = {"1_output_0", "2_output_0", "gradient/Sequential_2.weight"}
    assert wanted <= names_at(tmp_path, 2)


def test_gradients_are_saved_of_a_model_that_was_frozen_at_first(tmp_path):
    config = {
        "HookParameters": {"save_interval": "1"},
        "CollectionConfigurations": [{"CollectionName": "gradients"}],
    }
    body, head = nn.Linear(4, 5).requires_grad_(False), nn.Linear(5, 3)

    def loss_of(model: nn.Module, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(head(body(x)), labels)

    with attach(read_hook_config(config), tmp_path):
        train(head, loss_of)
        body.requires_grad_(True)
        train(head, loss_of)
    assert "gradient/Linear_weight" in names_at(tmp_path, 3)


def test_a_setting_of_all_modes_is_complained_of_once():
    with pytest.raises(ConfigInvalid) as refusal:
        read_hook_config({"HookParameters": {"save_interval": "1.0"}})
    assert str(refusal.value).count("save_interval") == 1


class Halves(nn.Module):
    """An autoencoder: as a whole where it is tried, by its halves where it is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Sequential(nn.Linear(4, 3), nn.ReLU()), nn.Linear(3, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.decoder(self.encoder(x))


def test_parts_of_a_model_that_are_called_one_by_one_are_one_step(tmp_path):
    model = Halves()
    model.encoder.eval()  # as a body with fixed statistics is
    seen = []

    def loss_of(model: nn.Module, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        seen.append((x, made := model.decoder(model.encoder(x))))
        return F.mse_loss(made, x)

    with hooked(tmp_path):
        with torch.no_grad():
            model.train(False)(batch()[0])
        model.train().encoder.eval()
        train(model, loss_of, steps=3)
        with torch.no_grad():
            model.train(False)(batch()[0])
    saved = SavedTensors(tmp_path)
    assert [saved.at(step).mode for step in saved.steps()] == ["EVAL", *["TRAIN"] * 3, "EVAL"]
    ends = {"encoder_input_0", "encoder.0_output_0", "encoder_output_0", "decoder_output_0"}
    wanted = {*ends, "gradient/Halves_decoder.weight", "Halves_encoder.0.weight"}
    for step in (1, 2, 3):
        assert wanted <= names_at(tmp_path, step)
        assert not {"Halves_output_0", "encoder_output_1"} & names_at(tmp_path, step)
    x, made = seen[-1]
    assert (saved.at(3).find("encoder_input_0").value() == x.numpy()).all()
    assert (saved.at(3).find("decoder_output_0").value() == made.detach().numpy()).all()


def test_a_weight_that_is_computed_when_it_is_read_is_not_a_call(tmp_path):
    model = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)))

    def loss_of(model: nn.Module, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        penalty = model[0].weight.abs().sum() + model[0].weight.norm()
        return F.cross_entropy(model(x), labels) + 0.1 * penalty + 0.1 * model[0].weight.norm()

    with hooked(tmp_path):
        train(model, loss_of, steps=3)
    assert list(SavedTensors(tmp_path).steps()) == [0, 1, 2]
    weight = "Sequential_0.parametrizations.weight.original1"
    wanted = {"cross_entropy_loss_output_0", weight, f"gradient/{weight}", "0_output_0"}
    assert all(wanted <= names_at(tmp_path, step) for step in range(3))


def test_a_model_that_comes_when_the_one_before_is_gone_begins_a_step(tmp_path):
    """Cross-validation: a model for each fold."""
    with hooked(tmp_path):
        for _ in range(3):
            train(Net())
    saved = SavedTensors(tmp_path)
    assert list(saved.steps()) == list(range(6))
    assert all(names_at(tmp_path, step) == names_at(tmp_path, 0) for step in range(6))

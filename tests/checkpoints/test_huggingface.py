"""The Hugging Face callback, with the real Trainer: resumed runs equal uninterrupted ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="transformers is not installed: frameworks.lock")

import torch
from torch.utils.data import Dataset, Subset
from transformers import (
    EarlyStoppingCallback,
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainingArguments,
)

from stoker.bus.stop import StopRequest, forget_stop, write_stop_request
from stoker.checkpoints.huggingface import StokerCheckpoints
from stoker.errors import CheckpointFailed
from tests.checkpoints.frameworks import (
    Broken,
    Interruption,
    a_process_of_its_own,
    make_job,
    names_in,
)

# transformers warns of what will change in its next version.
pytestmark = pytest.mark.filterwarnings("ignore")
BATCHES = 8


class Words(Dataset):
    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.rows = torch.randint(0, 50, (3 * BATCHES, 8), generator=generator)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


class CountingTrainer(Trainer):
    interruption: Interruption
    losses: list[float]

    def training_step(self, *args, **kwargs):
        loss = super().training_step(*args, **kwargs)
        self.losses.append(loss.item())
        self.interruption.count()
        return loss


def make_trainer(folder, interruption, *, callbacks=(), **changes):
    config = GPT2Config(
        vocab_size=50,
        n_positions=8,
        n_embd=16,
        n_layer=1,
        n_head=2,
        bos_token_id=0,
        eos_token_id=0,
    )
    settings = {
        "output_dir": str(folder / "out"),
        "num_train_epochs": 3,
        "per_device_train_batch_size": 3,
        "save_strategy": "no",
        "logging_steps": 1,
        "eval_strategy": "steps",
        "eval_steps": 2,
        "report_to": [],
        "use_cpu": True,
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
        **changes,
    }
    trainer = CountingTrainer(
        model=GPT2LMHeadModel(config),
        args=TrainingArguments(**settings),
        train_dataset=Words(),
        eval_dataset=Subset(Words(), range(3)),
        callbacks=list(callbacks),
    )
    trainer.interruption, trainer.losses = interruption, []
    return trainer


def train(job, *, at=0, breaks=False, callback=None, callbacks=(), **changes):
    """One process: three epochs, or as much as an interruption leaves."""
    with a_process_of_its_own():
        folder = Path(job.checkpoint_dir).parent
        interruption = Interruption(at, breaks=breaks)
        trainer = make_trainer(folder, interruption, callbacks=callbacks, **changes)
        checkpoints = StokerCheckpoints(job, **{"steps": 3, "minutes": None, **(callback or {})})
        checkpoints.train(trainer)
    return trainer, checkpoints


def losses_of(trainer):
    return {row["step"]: row["loss"] for row in trainer.state.log_history if "loss" in row}


def same_weights(one, other):
    pairs = zip(one.model.state_dict().values(), other.model.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run without interruption."""
    return train(make_job(tmp_path_factory.mktemp("whole")))[0]


@pytest.mark.parametrize("at", [4, BATCHES])
def test_a_stopped_run_continues_as_if_nothing_had_happened(tmp_path, whole, at):
    job = make_job(tmp_path)
    first, checkpoints = train(job, at=at)
    assert checkpoints.stopped
    assert names_in(job)[-1].endswith(f"-step-{at}")
    assert first.state.global_step == at + 1
    second, checkpoints = train(job)
    assert not checkpoints.stopped
    assert losses_of(second) == losses_of(whole)  # the log of the first part is in it, too
    assert same_weights(second, whole)


def test_sums_of_gradients_continue_as_well(tmp_path):
    changes = {"gradient_accumulation_steps": 3}
    whole, _ = train(make_job(tmp_path / "whole"), **changes)
    job = make_job(tmp_path / "parts")
    train(job, at=BATCHES + 1, **changes)
    second, _ = train(job, **changes)
    assert losses_of(second) == losses_of(whole)
    assert same_weights(second, whole)


def test_a_run_that_broke_off_continues_from_the_last_save(tmp_path, whole):
    job = make_job(tmp_path)
    with pytest.raises(Broken):
        train(job, at=11, breaks=True)
    assert names_in(job)[-1].endswith("-step-9")
    second, _ = train(job)
    assert losses_of(second) == losses_of(whole)
    assert same_weights(second, whole)


def test_a_finished_run_is_not_trained_again(tmp_path):
    job = make_job(tmp_path)
    whole, _ = train(job)
    again, _ = train(job)
    assert again.state.global_step == whole.state.global_step
    assert same_weights(again, whole)


def test_old_checkpoints_go(tmp_path):
    job = make_job(tmp_path)
    train(job, callback={"keep": 2, "steps": 1})
    assert [name.rpartition("-")[2] for name in names_in(job)] == ["23", "24"]


def test_the_states_of_callbacks_come_back(tmp_path):
    settings = {
        "metric_for_best_model": "loss",
        "restore_callback_states_from_checkpoint": True,
    }
    job = make_job(tmp_path)
    early = EarlyStoppingCallback(early_stopping_patience=100, early_stopping_threshold=9.0)
    train(job, at=9, callbacks=[early], **settings)
    trainer, _ = train(job, callbacks=[EarlyStoppingCallback(100, 9.0)], **settings)
    [found] = [c for c in trainer.callback_handler.callbacks if type(c) is EarlyStoppingCallback]
    assert found.early_stopping_patience_counter == 11  # all evaluations but the first


def test_a_rule_stops_a_run_and_the_launcher_is_told(tmp_path):
    job = make_job(tmp_path)
    write_stop_request(job.paths, StopRequest(by="rule vanishing_gradient"))
    _, checkpoints = train(job)
    assert checkpoints.stopped
    left = json.loads((tmp_path / "output/stoker/left.json").read_text())
    assert (left["by"], left["step"], left["checkpoint"]) == ("rule vanishing_gradient", 1, 1)
    forget_stop(job.paths)
    second, _ = train(job)
    assert second.state.global_step == 3 * BATCHES


def test_a_trainer_that_is_started_by_itself_is_refused(tmp_path):
    job = make_job(tmp_path)
    trainer = make_trainer(tmp_path, Interruption(), callbacks=[StokerCheckpoints(job)])
    with a_process_of_its_own(), pytest.raises(CheckpointFailed, match="was started by itself"):
        trainer.train()

"""The Lightning callback, with the real Lightning: resumed runs equal uninterrupted ones."""

from __future__ import annotations

import json
import os
import signal

import pytest

pytest.importorskip("lightning", reason="lightning is not installed: docker/frameworks.lock")

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

from stoker.bus.stop import StopRequest, forget_stop, write_stop_request
from stoker.checkpoints.lightning import StokerCheckpoints
from stoker.errors import CheckpointFailed
from tests.checkpoints.frameworks import (
    Broken,
    Interruption,
    a_process_of_its_own,
    make_job,
    names_in,
)

# Lightning warns of loaders without workers, of short epochs and the like.
pytestmark = pytest.mark.filterwarnings("ignore")
BATCHES = 10


class Noisy(Dataset):
    """Draws random numbers when it is read, as augmentations do."""

    def __init__(self):
        self.rows = torch.randn(4 * BATCHES, 8, generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index] + 0.1 * torch.randn(8), self.rows[index].sum()


class Stream(IterableDataset):
    """Has no length: Lightning looks one batch ahead."""

    def __iter__(self):
        return iter([(row, row.sum()) for row in Noisy().rows])


class Counted:
    """A loader that knows its own place, as torchdata's does."""

    def __init__(self):
        self.done = 0
        self.is_put_back = False

    def __len__(self):
        return BATCHES

    def __iter__(self):
        self.done, self.is_put_back = self.done if self.is_put_back else 0, False
        for rows in Noisy().rows.split(4)[self.done :]:
            self.done += 1
            yield rows, rows.sum(1)

    def state_dict(self):
        return {"done": self.done % BATCHES}

    def load_state_dict(self, state):
        self.done, self.is_put_back = state["done"], True


class Net(LightningModule):
    def __init__(self, interruption):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.3), nn.Linear(16, 1)
        )
        self.interruption = interruption
        self.losses = []
        self.extra = 0

    def loss(self, batch):
        return ((self.net(batch[0]).squeeze(1) - batch[1]) ** 2).mean()

    def training_step(self, batch, index):
        loss = self.loss(batch)
        self.losses.append(loss.item())
        self.interruption.count()
        return loss

    def validation_step(self, batch, index):
        self.log("val_loss", self.loss(batch))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), 1e-2)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 7, 0.5)
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]

    def on_save_checkpoint(self, checkpoint):
        checkpoint["extra"] = len(self.losses)

    def on_load_checkpoint(self, checkpoint):
        self.extra = checkpoint["extra"]


def own_handler(number, frame):
    """What the script itself does about SIGTERM."""


def fit(job, *, at=0, breaks=False, data=None, callback=None, **changes):
    """One process: three epochs, or as many as an interruption after `at` batches leaves."""
    with a_process_of_its_own():
        model = Net(Interruption(at, breaks=breaks))
        checkpoints = StokerCheckpoints(job, **{"steps": 4, "minutes": None, **(callback or {})})
        trainer = Trainer(
            callbacks=[checkpoints],
            max_epochs=3,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            **changes,
        )
        loader = DataLoader(Noisy(), 4, shuffle=True) if data is None else data
        signal.signal(signal.SIGTERM, own_handler)
        trainer.fit(model, loader, DataLoader(Noisy(), 8))
        checkpoints.handler_after = signal.getsignal(signal.SIGTERM)
    return model, checkpoints


def same_weights(one, other):
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run without interruption."""
    return fit(make_job(tmp_path_factory.mktemp("whole")))[0]


@pytest.mark.parametrize("at", [7, BATCHES, 24])
def test_a_stopped_run_continues_as_if_nothing_had_happened(tmp_path, whole, at):
    job = make_job(tmp_path)
    first, checkpoints = fit(job, at=at)
    assert checkpoints.stopped
    assert len(first.losses) == at
    second, checkpoints = fit(job)
    assert not checkpoints.stopped
    assert first.losses + second.losses == whole.losses
    assert same_weights(second, whole)
    assert second.extra == at


def test_a_stop_waits_for_the_end_of_a_sum_of_gradients(tmp_path):
    changes = {"accumulate_grad_batches": 3, "val_check_interval": 0.5}
    whole, _ = fit(make_job(tmp_path / "whole"), **changes)
    job = make_job(tmp_path / "parts")
    first, _ = fit(job, at=BATCHES + 1, **changes)
    assert len(first.losses) == BATCHES + 3
    second, _ = fit(job, **changes)
    assert first.losses + second.losses == whole.losses
    assert same_weights(second, whole)


def test_two_interruptions_of_a_stream_without_length(tmp_path):
    whole, _ = fit(make_job(tmp_path / "whole"), data=DataLoader(Stream(), 4))
    job = make_job(tmp_path / "parts")
    parts = [fit(job, at=at, data=DataLoader(Stream(), 4))[0] for at in (6, 9, 0)]
    assert [loss for part in parts for loss in part.losses] == whole.losses
    assert same_weights(parts[-1], whole)


def test_a_loader_that_knows_its_place_is_not_moved_twice(tmp_path):
    whole, _ = fit(make_job(tmp_path / "whole"), data=Counted())
    job = make_job(tmp_path / "parts")
    parts = [fit(job, at=at, data=Counted())[0] for at in (7, 3, 0)]
    assert [loss for part in parts for loss in part.losses] == whole.losses


def test_workers_that_draw_random_numbers_continue_too(tmp_path):
    def loader():
        return DataLoader(Noisy(), 4, shuffle=True, num_workers=1)

    whole, _ = fit(make_job(tmp_path / "whole"), data=loader())
    job = make_job(tmp_path / "parts")
    first, _ = fit(job, at=13, data=loader())
    second, _ = fit(job, data=loader())
    assert first.losses + second.losses == whole.losses


def test_a_run_that_broke_off_continues_from_the_last_save(tmp_path, whole):
    job = make_job(tmp_path)
    with pytest.raises(Broken):
        fit(job, at=15, breaks=True)
    assert names_in(job)[-1].endswith("-step-12")
    second, _ = fit(job)
    assert second.losses == whole.losses[12:]
    assert same_weights(second, whole)


def test_a_finished_run_is_not_trained_again_and_sigterm_is_the_scripts_own(tmp_path):
    job = make_job(tmp_path)
    whole, checkpoints = fit(job)
    assert checkpoints.handler_after is own_handler
    again, checkpoints = fit(job)
    assert again.losses == []
    assert same_weights(again, whole)
    assert checkpoints.handler_after is own_handler


def test_old_checkpoints_go_and_the_best_stays(tmp_path):
    job = make_job(tmp_path)
    fit(job, callback={"keep": 2, "monitor": "val_loss", "steps": 1})
    names = names_in(job)
    steps = [int(name.rpartition("-")[2]) for name in names]
    assert steps[-2:] == [29, 30]
    assert len(names) <= 3


def test_a_metric_that_is_never_logged_is_reported(tmp_path):
    with pytest.raises(CheckpointFailed, match="monitor='accuracy' was not logged, but these"):
        fit(make_job(tmp_path), callback={"monitor": "accuracy"})


def test_a_rule_stops_a_run_and_the_launcher_is_told(tmp_path):
    job = make_job(tmp_path)
    write_stop_request(job.paths, StopRequest(by="rule vanishing_gradient"))
    first, checkpoints = fit(job)
    assert checkpoints.stopped
    assert len(first.losses) == 1
    left = json.loads((tmp_path / "output/stoker/left.json").read_text())
    assert (left["by"], left["step"], left["checkpoint"]) == ("rule vanishing_gradient", 1, 1)
    forget_stop(job.paths)
    second, _ = fit(job)
    assert len(first.losses + second.losses) == 3 * BATCHES


def test_a_trainer_of_the_package_by_its_older_name_is_followed_too(tmp_path):
    import pytorch_lightning

    class Plain(pytorch_lightning.LightningModule):
        def __init__(self, stop_at):
            super().__init__()
            self.layer, self.stop_at, self.seen = torch.nn.Linear(4, 1), stop_at, []

        def training_step(self, batch, index):
            self.seen.append(index)
            if len(self.seen) == self.stop_at:
                os.kill(os.getpid(), signal.SIGTERM)
            return self.layer(batch).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    def fit_plain(stop_at):
        with a_process_of_its_own():
            model, checkpoints = Plain(stop_at), StokerCheckpoints(make_job(tmp_path), steps=4)
            trainer = pytorch_lightning.Trainer(
                callbacks=[checkpoints],
                max_epochs=1,
                accelerator="cpu",
                logger=False,
                enable_checkpointing=False,
                enable_progress_bar=False,
                enable_model_summary=False,
            )
            trainer.fit(model, DataLoader(torch.ones(8, 4), 1))
        return model.seen, checkpoints.stopped

    assert fit_plain(stop_at=3) == ([0, 1, 2], True)
    assert fit_plain(stop_at=0) == ([3, 4, 5, 6, 7], False)

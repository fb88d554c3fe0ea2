"""One rank of a framework's training: `torchrun framework_ranks.py FRAMEWORK ROOT STOP_AT`.

Rank 1 alone hears SIGTERM, in its batch number STOP_AT. Each rank writes its losses to
ROOT/FRAMEWORK-RANK.json.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path

import torch

import stoker
from tests.checkpoints.frameworks import Interruption

RANK = int(os.environ["RANK"])


def main() -> None:
    framework, root, stop_at = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(1 + RANK)  # each rank draws its own dropout
    run = {"lightning": run_lightning, "huggingface": run_huggingface}[framework]
    losses, stopped = run(root, Interruption(stop_at if RANK == 1 else 0))
    (root / f"{framework}-{RANK}.json").write_text(json.dumps([losses, stopped]))


def run_lightning(root, interruption):
    from lightning.pytorch import Trainer
    from torch.utils.data import DataLoader

    from stoker.checkpoints.lightning import StokerCheckpoints
    from tests.checkpoints.test_lightning import Net, Noisy

    checkpoints = StokerCheckpoints(stoker.job(root=root), steps=2, minutes=None, keep=9)
    trainer = Trainer(
        callbacks=[checkpoints],
        max_epochs=2,
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model = Net(interruption)
    trainer.fit(model, DataLoader(Noisy(), 4, shuffle=True))
    return model.losses, checkpoints.stopped


def run_huggingface(root, interruption):
    from stoker.checkpoints.huggingface import StokerCheckpoints
    from tests.checkpoints.test_huggingface import make_trainer

    trainer = make_trainer(root, interruption, eval_strategy="no", num_train_epochs=2)
    checkpoints = StokerCheckpoints(stoker.job(root=root), steps=2, minutes=None, keep=9)
    checkpoints.train(trainer)
    return trainer.losses, checkpoints.stopped


if __name__ == "__main__":
    main()

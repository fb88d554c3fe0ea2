"""A training script for the platform: no part of the tests' process, it is sent as the job's code.

It stands still where HOLDS says, so that no interruption depends on who is quicker: `4;10 12` is
before the end of step 4 in its first life, of 10 and of 12 in its second. It says so by a file
waiting-STEP.sagemaker-ignore among the checkpoints, and goes on when it is told to stop, or when
there is a file go-STEP.sagemaker-ignore.
"""

from __future__ import annotations

import gc
import os
import random
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import stoker

EPOCHS, BATCHES, EVERY = 3, 8, 3
DEADLINE_SECONDS = 200


def main() -> None:
    torch.set_num_threads(1)
    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if ranks > 1:
        torch.distributed.init_process_group("gloo")
    train(rank, ranks)
    if ranks > 1:
        # gloo's threads end with the last who holds the group. One that is still at work when
        # Python ends aborts the process: torch's own race, with and without us.
        gc.collect()
        torch.distributed.destroy_process_group()


def train(rank: int, ranks: int) -> None:
    model = make_model(ranks)
    loader = make_loader(ranks)
    torch.manual_seed(rank)
    random.seed(rank)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    seen = {"lives": 0}
    with stoker.checkpoints(stoker.job(), model=model, optimizer=optimizer, seen=seen) as ckpt:
        seen["lives"] += 1
        holds = read_holds(seen["lives"])
        ckpt.save_every(steps=EVERY)
        for _epoch in ckpt.range(EPOCHS):
            for step, (inputs, targets) in ckpt.batches(loader):
                # Draws from both, so that a lost random state shows in the losses.
                loss = ((model(inputs) - targets) ** 2).mean() * (1 + 0.01 * random.random())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                print(f"loss rank={rank} step={step} {loss.item().hex()}", flush=True)
                if step in holds:
                    hold(ckpt, step)
    if not ckpt.stopped and rank == 0:
        weights = [p.detach().numpy().tobytes() for p in model.parameters()]
        Path(os.environ["SM_MODEL_DIR"], "weights").write_bytes(b"".join(weights))


def make_model(ranks: int) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.2), nn.Linear(16, 2))
    return DistributedDataParallel(model) if ranks > 1 else model


def make_loader(ranks: int) -> DataLoader:
    generator = torch.Generator().manual_seed(7)
    inputs = torch.randn(BATCHES * 4 * ranks, 8, generator=generator)
    data = TensorDataset(inputs, inputs[:, :2].sin())
    sampler = DistributedSampler(data) if ranks > 1 else None
    return DataLoader(data, 4, shuffle=sampler is None, sampler=sampler)


def read_holds(life: int) -> set[int]:
    lives = os.environ.get("HOLDS", "").split(";")
    return {int(step) for step in lives[life - 1].split()} if life <= len(lives) else set()


def hold(ckpt: stoker.checkpoints.Session, step: int) -> None:
    ckpt.flush()
    folder = Path(os.environ["SM_CHECKPOINT_DIR"])
    folder.joinpath(f"waiting-{step}.sagemaker-ignore").touch()
    go = folder / f"go-{step}.sagemaker-ignore"
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (ckpt.should_stop() or go.exists()):
        if time.monotonic() > deadline:
            raise SystemExit(f"nothing happened at step {step}")
        time.sleep(0.02)


if __name__ == "__main__":
    main()

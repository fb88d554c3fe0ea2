"""A small training run that is killed, stopped and resumed by the tests beside it.

Usage: training.py ROOT [--stop-at STEP] [--sharded] …; under torchrun with several ranks. It has
all that makes resuming hard: dropout, batch norm, a shuffled loader, momentum, a schedule. Each
step appends `step loss` to ROOT/losses-RANK; the end writes a hash of the weights to ROOT/weights.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import stoker

BATCHES = 8


def main(rendezvous: str | None = None) -> None:
    args = parse_arguments()
    torch.set_num_threads(1)
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if ranks > 1 or args.sharded:
        dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=ranks)
    train(args, rank, ranks)
    if dist.is_initialized():
        # gloo's threads end with the last who holds the group. One that is still at work when
        # Python ends aborts the process: torch's own race, with and without us.
        gc.collect()
        dist.destroy_process_group()


def train(args: argparse.Namespace, rank: int, ranks: int) -> None:
    torch.manual_seed(rank), random.seed(rank), np.random.seed(rank)
    model, loader = make_model(args, ranks), make_loader(ranks, args)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50)
    seen: dict[str, object] = {"losses": []}
    job = stoker.job(root=args.root)
    parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "seen": seen}
    with stoker.checkpoints(job, keep=args.keep, **parts) as ckpt:
        ckpt.save_every(steps=args.every)
        for _epoch in ckpt.range(args.epochs):
            for step, (inputs, targets) in ckpt.batches(loader):
                if step == args.stop_at:
                    stop(args, job)
                time.sleep(args.seconds * random.random())
                # Draws from all three, so that a lost random state shows in the losses.
                noise = random.random() + np.random.rand()
                loss = ((model(inputs) - targets) ** 2).mean() * (1 + 0.01 * noise)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                scheduler.step()
                seen["losses"] = [*seen["losses"][-3:], loss.item()]
                with open(f"{args.root}/losses-{rank}", "a") as file:
                    file.write(f"{step} {loss.item()!r}\n")
    if not ckpt.stopped:
        write_weights(model, args.root, rank)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--every", type=int, default=3)
    parser.add_argument("--keep", type=int, default=3)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.0, help="longest rest in a step")
    parser.add_argument("--stop-at", type=int, default=-1)
    parser.add_argument("--stop-by", choices=("term", "kill", "rule"), default="term")
    parser.add_argument("--sharded", action="store_true")
    return parser.parse_args()


def make_model(args: argparse.Namespace, ranks: int) -> nn.Module:
    state = torch.get_rng_state()
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(8, args.width),
        nn.BatchNorm1d(args.width),
        nn.Dropout(0.2),
        nn.Linear(args.width, 2),
    )
    torch.set_rng_state(state)
    if args.sharded:
        model[1] = nn.LayerNorm(args.width)
        return fully_shard(model)
    return DistributedDataParallel(model) if ranks > 1 else model


def make_loader(ranks: int, args: argparse.Namespace) -> DataLoader:
    generator = torch.Generator().manual_seed(7)
    inputs = torch.randn(BATCHES * 4, 8, generator=generator)
    data = TensorDataset(inputs, inputs[:, :2].sin())
    sampler = DistributedSampler(data) if ranks > 1 else None
    return DataLoader(
        data, 4 // ranks, shuffle=sampler is None, sampler=sampler, num_workers=args.workers
    )


def stop(args: argparse.Namespace, job: stoker.Job) -> None:
    if args.stop_by == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif args.stop_by == "term":
        os.kill(os.getpid(), signal.SIGTERM)
    else:
        from stoker.bus.stop import StopRequest, write_stop_request

        write_stop_request(job.paths, StopRequest(by="rule loss_too_low", reason="enough"))


def write_weights(model: nn.Module, root: str, rank: int) -> None:
    whole = [p.full_tensor() if isinstance(p, DTensor) else p for p in model.parameters()]
    text = b"".join(p.detach().contiguous().numpy().tobytes() for p in whole)
    if rank == 0:
        Path(root, "weights").write_text(hashlib.sha256(text).hexdigest())


if __name__ == "__main__":
    main()

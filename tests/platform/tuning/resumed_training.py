"""A training script for the platform: it is sent as the code of trials.

Its weights depend on every step and on the random state: a trial that was paused and resumed has
the weights of an uninterrupted one only if nothing is lost or repeated.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import stoker

EPOCH_SECONDS = 0.8
"""As of a real training: decisions about a trial come while it trains."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float)
    parser.add_argument("--epochs", type=int)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.Linear(16, 2))
    inputs = torch.randn(32, 8)
    loader = DataLoader(TensorDataset(inputs, inputs[:, :2].sin()), 8, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    with stoker.checkpoints(stoker.job(), model=model, optimizer=optimizer) as ckpt:
        for epoch in ckpt.range(args.epochs):
            for _step, (batch, targets) in ckpt.batches(loader):
                loss = ((model(batch) - targets) ** 2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                time.sleep(EPOCH_SECONDS / len(loader))
            if not ckpt.should_stop():
                # Better with the learning rate, so that the test knows who wins.
                print(f"epoch {epoch} val_acc={args.lr + epoch / 1e6:.6f}", flush=True)
    if not ckpt.stopped:
        weights = [p.detach().numpy().tobytes() for p in model.parameters()]
        Path(os.environ["SM_MODEL_DIR"], "weights").write_bytes(b"".join(weights))


if __name__ == "__main__":
    main()

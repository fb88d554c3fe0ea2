"""Two ranks with DDP, and a script for the profiles of single steps."""

import os
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

X, Y = torch.ones(64, 4), torch.ones(64, 1)


def train(model, optimizer, steps):
    loader = DataLoader(TensorDataset(X[: steps * 2], Y[: steps * 2]), batch_size=2)
    for x, y in loader:
        loss = ((model(x) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def ranks():
    torch.distributed.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 1))
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), 6)
    torch.distributed.destroy_process_group()


def windows():
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, optimizer, 12)
    if "own" in sys.argv:
        with torch.profiler.profile():
            train(model, optimizer, 4)


def switched():
    """Half of the training is not profiled any more: as UpdateTrainingJob does it."""
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    file = f"{os.environ['STOKER_ROOT']}/input/config/profilerconfig.json"
    train(model, optimizer, 4)
    with open(f"{file}.new", "w") as new:
        new.write('{"DisableProfiler": true}')
    os.replace(f"{file}.new", file)
    time.sleep(2.1)
    train(model, optimizer, 4)  # the first step of these sees it
    train(model, optimizer, 8)


if __name__ == "__main__":
    globals()[sys.argv[1]]()

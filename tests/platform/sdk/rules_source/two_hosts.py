"""A user's distributed script that diverges; each rank leaves a file on SIGTERM."""

import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn


def leave(*_):
    rank = os.environ["RANK"]
    Path(os.environ["SM_MODEL_DIR"], f"rank-{rank}").write_text("saved on the way out")
    print(f"rank {rank} leaves", flush=True)
    os._exit(0)  # a rank in the middle of an all-reduce has nobody to talk to any more


dist.init_process_group("gloo")
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
model = nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=1e6)
signal.signal(signal.SIGTERM, leave)
for _ in range(1_000_000):
    points = torch.randn(32, 4)
    loss = nn.functional.mse_loss(model(points), points.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.02)
sys.exit("nobody stopped it")

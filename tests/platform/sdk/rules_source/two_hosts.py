"""A user's distributed script that diverges. On SIGTERM the ranks leave at the same step."""

import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

heard = []
signal.signal(signal.SIGTERM, lambda number, _frame: heard.append(number))

dist.init_process_group("gloo")
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
model = nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=1e6)
leaves = torch.zeros(1)
while not leaves:
    points = torch.randn(32, 4)
    loss = nn.functional.mse_loss(model(points), points.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.02)
    leaves.fill_(len(heard))
    dist.all_reduce(leaves)

# The ranks agree as soon as one of them has heard it; each host must have, and once.
deadline = time.monotonic() + 60
while not heard:
    if time.monotonic() > deadline:
        sys.exit("this host was not told to stop")
    time.sleep(0.01)
dist.barrier()
dist.destroy_process_group()
rank = os.environ["RANK"]
Path(os.environ["SM_MODEL_DIR"], f"rank-{rank}").write_text(f"told {len(heard)} times")
print(f"rank {rank} leaves", flush=True)

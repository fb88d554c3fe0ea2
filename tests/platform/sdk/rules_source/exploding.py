"""A user's script that diverges and would go on for hours; on SIGTERM it saves and leaves."""

import os
import signal
import sys
import time
from pathlib import Path

import torch
from torch import nn


def leave(*_):
    torch.save(model.state_dict(), Path(os.environ["SM_MODEL_DIR"], "model.pt"))
    print("saved on the way out", flush=True)
    sys.exit(0)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e6)
criterion = nn.MSELoss()
signal.signal(signal.SIGTERM, leave)
for step in range(1_000_000):
    points = torch.randn(32, 4)
    loss = criterion(model(points), points.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        state = Path("/opt/ml/checkpoints/state.pt")
        torch.save(model.state_dict(), state.with_suffix(".sagemaker-ignore"))
        state.with_suffix(".sagemaker-ignore").replace(state)
    time.sleep(0.02)

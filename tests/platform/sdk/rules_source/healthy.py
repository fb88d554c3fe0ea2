"""A user's script with no line of Stoker's or smdebug's: 60 steps of a net that learns."""

import os
from pathlib import Path

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
criterion = nn.CrossEntropyLoss()
for _ in range(60):
    points = torch.randn(32, 4)
    loss = criterion(model(points), (points[:, 0] > 0).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss={loss.item():.4f}")
torch.save(model.state_dict(), Path(os.environ["SM_MODEL_DIR"], "model.pt"))

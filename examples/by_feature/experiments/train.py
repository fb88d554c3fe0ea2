"""A small regression; its log has what metric regexes find, and MLflow may watch it, too."""

from __future__ import annotations

import argparse

import torch
from torch import nn


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()

    torch.manual_seed(0)
    points = torch.rand(200, 2)
    target = points @ torch.tensor([[2.0], [-1.0]]) + 0.5
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        for _ in range(10):
            loss = nn.functional.mse_loss(model(points), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch={epoch} train_loss={loss.item():.6f}", flush=True)


if __name__ == "__main__":
    main()

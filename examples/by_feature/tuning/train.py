"""A small network on the two moons, written for any tuner: one line of metrics for each epoch.

The same script runs under `stoker tune`, SDK v2's HyperparameterTuner and SDK v3's. It saves
checkpoints, so Hyperband can pause a trial and resume it.
"""

from __future__ import annotations

import argparse
import math
from itertools import pairwise

import torch
from torch import nn

import stoker


def make_moons(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two half circles with noise, and which of them each point belongs to."""
    generator = torch.Generator().manual_seed(seed)
    angle = torch.rand(count, generator=generator) * math.pi
    is_lower = torch.arange(count) % 2
    x = torch.where(is_lower == 0, angle.cos(), 1 - angle.cos())
    y = torch.where(is_lower == 0, angle.sin(), 0.5 - angle.sin())
    points = torch.stack([x, y], 1)
    return points + 0.2 * torch.randn(count, 2, generator=generator), is_lower


def make_model(layers: int, width: int) -> nn.Sequential:
    sizes = [2, *[width] * layers]
    hidden: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        hidden += [nn.Linear(inputs, outputs), nn.Tanh()]
    return nn.Sequential(*hidden, nn.Linear(sizes[-1], 2))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--optimizer", choices=("sgd", "adam"), default="adam")
    parser.add_argument("--epochs", type=int, default=9)
    args = parser.parse_args()

    job = stoker.job()
    torch.manual_seed(0)
    points, labels = make_moons(400, seed=1)
    test_points, test_labels = make_moons(400, seed=2)
    model = make_model(args.layers, 16)
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
    optimizer = kinds[args.optimizer](model.parameters(), lr=args.lr)

    with stoker.checkpoints(job, model=model, optimizer=optimizer) as ckpt:
        for epoch in ckpt.range(args.epochs):
            for _ in range(20):
                loss = nn.functional.cross_entropy(model(points), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            accuracy = (model(test_points).argmax(1) == test_labels).float().mean().item()
            job.log(epoch, loss=loss.item(), val_acc=accuracy)
    if not ckpt.stopped:
        torch.save(model.state_dict(), job.model_dir / "model.pt")


if __name__ == "__main__":
    main()

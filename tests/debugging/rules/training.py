"""Tiny real trainings, sick or healthy, with their tensors saved as a rule asks for them.

run = train(rule, model, inputs, targets, folder=tmp_path, lr=1e-13)
assert fired(rule, run) == [1, 2]
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from stoker.debugging.hook.attach import attach
from stoker.debugging.hook.config import default_config
from stoker.debugging.rule import Rule
from stoker.debugging.tensors.saved_tensors import SavedTensors

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


ACCUMULATED = 4


class Accumulating(torch.optim.SGD):
    """Steps once in four calls, as a loop that accumulates gradients does."""

    calls = 0

    def step(self, closure=None):
        self.calls += 1
        return super().step(closure) if self.calls % ACCUMULATED == 0 else None


def train(
    rule: Rule,
    model: nn.Module,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    *,
    folder: Path,
    loss: Loss | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    lr: float = 0.01,
    steps: int = 12,
    evaluate_every: int | None = None,
    every: int = 1,
) -> SavedTensors:
    """Trains on the same batch again and again; the hook saves every step.

    Args:
        rule: whose needs are saved, and nothing else but losses.
        folder: an empty one, for the files.
        loss: a loss module; CrossEntropyLoss where there is none.
        optimizer: plain gradient descent with `lr` where there is none.
        evaluate_every: three batches in the mode EVAL after so many steps of training.
        every: saves every how many steps, where the rule does not say.
    """
    loss = loss or nn.CrossEntropyLoss()
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=lr)
    with attach(default_config(every=every), folder, needs=rule.needs()):
        for step in range(steps):
            optimizer.zero_grad()
            loss(model(inputs), targets).backward()
            optimizer.step()
            if evaluate_every and (step + 1) % evaluate_every == 0:
                _evaluate(model, loss, inputs, targets)
    return SavedTensors(folder)


def _evaluate(model: nn.Module, loss: Loss, inputs: torch.Tensor, targets: torch.Tensor) -> None:
    model.eval()
    with torch.no_grad():
        for _ in range(3):
            loss(model(inputs), targets)
    model.train()

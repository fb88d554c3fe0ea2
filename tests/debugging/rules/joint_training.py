"""One training that every rule about networks finds healthy, and what spoils it.

Each sickness changes one thing of it, so that rules which do not mean that sickness stay silent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from stoker.debugging.hook.attach import attach
from stoker.debugging.hook.config import default_config
from stoker.debugging.need import Need
from stoker.debugging.tensors import SavedTensors, mark_end

CLASSES = 4
BATCH = 96
STEPS = 24
EVALUATE_EVERY = 6
WORDS = 20

Optimizer = torch.optim.Optimizer


class Net(nn.Module):
    """Reads pictures and sentences: convolution, normalization, embedding, ReLU, Tanh, Sigmoid."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()
        )
        self.words = nn.Embedding(WORDS, 8)
        self.gate = nn.Sequential(nn.Linear(16, 16), nn.Sigmoid())
        self.middle = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16), nn.ReLU())
        self.head = nn.Linear(16, CLASSES)
        self.backward_share = 1.0
        """How much of a gradient gets through to the convolution."""

    def forward(self, pictures: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        seen = self.features(pictures).mean(dim=(2, 3))
        if self.backward_share != 1.0:
            seen = seen.detach() + self.backward_share * (seen - seen.detach())
        both = torch.cat([seen, self.words(tokens).mean(dim=1)], dim=1)
        return self.head(self.middle(both * self.gate(both)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """What one step sees."""

    pictures: torch.Tensor
    tokens: torch.Tensor
    labels: torch.Tensor


def make_batch(seed: int) -> Batch:
    """Each class has a colour and a word of its own, beside much noise."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(BATCH) % CLASSES
    colours = torch.tensor([[1.0, -1, 0], [-1, 1, 0], [0, 1, -1], [0, -1, 1]])
    pictures = torch.randn(BATCH, 3, 6, 6, generator=generator) + colours[labels][:, :, None, None]
    tokens = torch.randint(5, WORDS, (BATCH, 6), generator=generator)
    tokens[:, 0] = labels + 1
    return Batch(pictures=pictures, tokens=tokens, labels=labels)


def same(batch: Batch, step: int) -> Batch:
    return batch


@dataclass(frozen=True, kw_only=True, slots=True)
class Sickness:
    """What is other than in the healthy training."""

    fires: dict[str, str]
    """Rule → why it fires, where it is not the rule that is about it."""
    model: Callable[[Net], object] = lambda model: None
    """Spoils the network before the first step."""
    data: Callable[[Batch, int], Batch] = same
    """Gives another batch at a step, of training and of validation."""
    validation: Callable[[Batch, int], Batch] = same
    """The same, of validation alone."""
    optimizer: Callable[[Net], Optimizer] = lambda model: torch.optim.Adam(
        model.parameters(), lr=2e-3
    )


def pretrain() -> dict[str, torch.Tensor]:
    """The weights of a network that tells the classes apart, but has not learned it all."""
    torch.manual_seed(0)
    model, loss = Net(), make_loss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(30):
        batch = make_batch(1000 + step)
        optimizer.zero_grad()
        loss(model(batch.pictures, batch.tokens), batch.labels).backward()
        optimizer.step()
    return {name: value.clone() for name, value in model.state_dict().items()}


def make_loss() -> nn.Module:
    # The sum: gradients of the mean over a batch are small for rules that expect a first step.
    return nn.CrossEntropyLoss(reduction="sum")


def train_jointly(
    sickness: Sickness, start: dict[str, torch.Tensor], folder: Path, needs: Sequence[Need]
) -> SavedTensors:
    """Trains with the hook, every step saved, and validates now and then."""
    model, loss = Net(), make_loss()
    model.load_state_dict(start)
    sickness.model(model)
    optimizer = sickness.optimizer(model)
    training, validation = make_batch(1), make_batch(2)
    with attach(default_config(every=1), folder, needs=needs):
        for step in range(STEPS):
            batch = sickness.data(training, step)
            optimizer.zero_grad()
            loss(model(batch.pictures, batch.tokens), batch.labels).backward()
            optimizer.step()
            if step % EVALUATE_EVERY == EVALUATE_EVERY - 1:
                other = sickness.validation(sickness.data(validation, step), step)
                model.eval()
                with torch.no_grad():
                    loss(model(other.pictures, other.tokens), other.labels)
                model.train()
    mark_end(str(folder), is_job=False)
    return SavedTensors(folder)

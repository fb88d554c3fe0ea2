"""A training of few milliseconds, and what its traces hold."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import torch


class Training:
    """One small model; each call is one step."""

    def __init__(self) -> None:
        self.model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def __call__(self) -> None:
        self.optimizer.zero_grad()
        self.model(torch.ones(2, 4)).sum().backward()
        self.optimizer.step()


def read_trace(file: Path | str) -> dict:
    """The trace, which must be whole."""
    with gzip.open(file) as packed:
        return json.load(packed)


def steps_of(file: Path | str) -> list[int]:
    """The numbers of the steps it shows."""
    names = [event.get("name", "") for event in read_trace(file)["traceEvents"]]
    found = [re.fullmatch(r"ProfilerStep#(\d+)", name) for name in names]
    return sorted({int(match[1]) for match in found if match})


def kinds_of(file: Path | str) -> set[str]:
    """The kinds of events in it."""
    return {event.get("cat", "") for event in read_trace(file)["traceEvents"]}

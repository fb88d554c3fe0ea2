"""Optimizers by the names of their parameters, as sharded jobs save them."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import nn

from stoker.checkpoints.sharding import load_by_name, state_by_name


def make_parts():
    model = nn.ModuleDict({"used": nn.Linear(3, 3), "unused": nn.Linear(3, 3)})
    return model, torch.optim.AdamW(model.parameters(), lr=0.1)


def train_one_step(model, optimizer, part):
    model[part](torch.arange(3.0)).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def test_a_parameter_that_never_had_a_gradient_continues_without_a_state():
    model, optimizer = make_parts()
    train_one_step(model, optimizer, "used")
    fresh, fresh_optimizer = make_parts()
    load_by_name(state_by_name(model), fresh)
    load_by_name(deepcopy(state_by_name(model, optimizer)), fresh, fresh_optimizer)
    for part in ("used", "unused"):  # its first gradient comes after the resume
        train_one_step(model, optimizer, part)
        train_one_step(fresh, fresh_optimizer, part)
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, fresh.state_dict()[name]), name

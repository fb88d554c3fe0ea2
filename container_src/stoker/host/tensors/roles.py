"""Which tensors the 3-D view shows, and as what."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from stoker.debugging.description import Description
from stoker.debugging.tensors import SavedTensors
from stoker.host.tensors.choosing import choose_names

Role = Literal["input", "layer", "prediction"]
_DIGITS = re.compile(r"([0-9]+)")


def choose_roles(
    saved: SavedTensors, regex: str, label_regex: str, prediction_regex: str
) -> dict[str, Role]:
    """Name → role, in the order in which data flow through the network."""
    names = in_flow_order(saved)
    describe = saved.chooser.describe
    labels = choose_names(names, label_regex, "--label")[:1] if label_regex else []
    predicted = choose_names(names, prediction_regex, "--prediction")[:1]
    if not prediction_regex:
        predicted = [n for n in names if _is_of_model(describe(n), "output")][:1]
    if not label_regex:
        labels = [n for n in names if _is_of_model(describe(n), "input")][:1]
    layers = choose_names(names, regex) if regex else _default_layers(saved, names)
    roles: dict[str, Role] = dict.fromkeys(labels, "input")
    roles |= {name: "layer" for name in layers if name not in {*labels, *predicted}}
    return roles | dict.fromkeys(predicted, "prediction")


def in_flow_order(saved: SavedTensors) -> list[str]:
    """As the hook met them; files without descriptions only have their names."""
    order = {name: place for place, name in enumerate(saved.descriptions)}
    return sorted(saved.names(), key=lambda name: (order.get(name, len(order)), _natural(name)))


def _natural(name: str) -> list[tuple[int, str]]:
    """So that layer 10 comes after layer 9."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in _DIGITS.split(name)]


def _is_of_model(description: Description, kind: str) -> bool:
    is_first = description.is_model and not description.position
    return is_first and description.kind == kind


def _default_layers(saved: SavedTensors, names: Sequence[str]) -> list[str]:
    """Activations where they were saved; parameters otherwise."""
    described = [(name, saved.chooser.describe(name)) for name in names]
    # A block's output is that of its last part once more.
    blocks = {d.module.rpartition(".")[0] for _, d in described if d.module}
    outputs = [
        n
        for n, d in described
        if d.kind == "output" and not (d.is_of_loss or (d.module and d.module in blocks))
    ]
    return outputs or [n for n, d in described if d.kind in ("weight", "bias")] or list(names)

"""The tensors inside of what a module takes or gives back."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import torch

from stoker.debugging.hook.arena import can_be_saved

# A container may hold itself.
_DEEPEST = 8


def tensors_in(value: object, depth: int = 0) -> Iterator[torch.Tensor]:
    """In order: of lists and tuples as smdebug has it, and of dicts and dataclasses, too."""
    if isinstance(value, torch.Tensor):
        yield value
        return
    if depth < _DEEPEST:
        for inner in _parts(value):
            yield from tensors_in(inner, depth + 1)


def _parts(value: object) -> Iterator[object]:
    if isinstance(value, list | tuple):
        yield from value
    elif isinstance(value, Mapping):  # a ModelOutput is one
        yield from value.values()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield getattr(value, field.name, None)


def loss_in(value: object) -> torch.Tensor | None:
    """What a model that computes its loss itself calls `loss`."""
    try:
        loss = value.get("loss") if isinstance(value, Mapping) else getattr(value, "loss", None)
    except Exception:  # a property of the script's own, which may ask for more than there is
        return None
    is_scalar = isinstance(loss, torch.Tensor) and loss.numel() == 1
    return loss if is_scalar else None


def plain(tensor: torch.Tensor) -> torch.Tensor | None:
    """A tensor that can be copied as it is: detached, dense, this process's part; or None."""
    tensor = tensor.detach()
    if type(tensor).__name__ == "DTensor":
        tensor = tensor.to_local()  # type: ignore[attr-defined] # DTensor's
    if tensor.is_nested or tensor.device.type == "meta":
        return None
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    return tensor if can_be_saved(tensor.dtype) else None

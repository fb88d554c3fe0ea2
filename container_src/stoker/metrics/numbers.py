"""One number, whatever a script has it in: float, bool, NumPy scalar, tensor on any device."""

from __future__ import annotations

import math
import sys
from typing import SupportsFloat

TYPE_CHECKING = False
if TYPE_CHECKING:
    import torch


def keep_number(value: SupportsFloat) -> SupportsFloat:
    """What `float()` makes the number of later, whatever happens to `value` until then.

    Raises:
        TypeError: it is not one number.
    """
    if type(value) is float:
        return value
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _keep_tensor(value)
    try:
        return float(value.item() if hasattr(value, "item") else value)
    except OverflowError:  # an int that no float can hold
        return math.inf if value > 0 else -math.inf  # type: ignore[operator] # ints have an order
    except (TypeError, ValueError):
        raise TypeError(
            f"{value!r:.80} is not one number: log a float, or a tensor with one element"
        ) from None


def _keep_tensor(tensor: torch.Tensor) -> SupportsFloat:
    if tensor.numel() != 1:
        raise TypeError(
            f"a tensor of shape {tuple(tensor.shape)} is not one number: log its mean, say"
        )
    if tensor.is_cuda:
        return _OnDevice(tensor)
    return float(tensor.item())


class _OnDevice:
    """A copy on the GPU, made in the order of its stream: the training thread does not wait."""

    def __init__(self, tensor: torch.Tensor) -> None:
        import torch

        self._copy = tensor.detach().clone()
        # The thread that reads it has another current stream, which knows nothing of the copy.
        self._copied = torch.cuda.Event()  # type: ignore[no-untyped-call] # torch has none
        self._copied.record(torch.cuda.current_stream(tensor.device))

    def __float__(self) -> float:
        self._copied.synchronize()
        return float(self._copy.item())

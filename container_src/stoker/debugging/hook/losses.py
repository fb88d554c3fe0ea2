"""Losses that are not modules: `torch.nn.functional.cross_entropy` and similar functions."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

FUNCTIONS = (
    *("binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss"),
    *("cross_entropy", "ctc_loss", "gaussian_nll_loss", "hinge_embedding_loss", "huber_loss"),
    *("kl_div", "l1_loss", "linear_cross_entropy", "margin_ranking_loss", "mse_loss"),
    *("multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss"),
    *("poisson_nll_loss", "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss"),
    "triplet_margin_with_distance_loss",
)

Function = Callable[..., Any]
Told = Callable[[str, tuple[Any, ...], dict[str, Any], Any], None]
"""Gets the name of the function, what it was given and what it gave."""


def loss_name(function: str) -> str:
    """A name that smdebug, too, takes for that of a loss: `cross_entropy_loss`."""
    return function if function.endswith("_loss") else f"{function}_loss"


class FunctionalLosses:
    """Listens to calls of torch's loss functions."""

    def __init__(self, told: Told, *, is_followed: Callable[[], bool]) -> None:
        self._told = told
        self._is_followed = is_followed
        self.is_quiet = False
        """Calls now belong to a loss that is reported as a whole."""
        for name in FUNCTIONS:
            _wrap(name)
        _LISTENERS.append(self)

    def close(self) -> None:
        """Stops listening. The wrappers of torch's functions stay, and do nothing.

        The script may have taken it by name. pickle looks a function up by its name and refuses
        one that is not found there, and with it the model that holds it.
        """
        if self in _LISTENERS:
            _LISTENERS.remove(self)

    def call(self, name: str, original: Function, /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the loss's own
        """Calls a loss function, and reports the call."""
        if self.is_quiet or not self._is_followed():
            return original(*args, **kwargs)
        self.is_quiet = True  # one loss may call another
        try:
            result = original(*args, **kwargs)
        finally:
            self.is_quiet = False
        self._told(name, args, kwargs, result)
        return result


def is_listened_to() -> bool:
    """Whether calls of torch's loss functions are reported."""
    return bool(_LISTENERS)


_LISTENERS: list[FunctionalLosses] = []
_OURS: dict[str, Function] = {}
"""The wrapper of each function: one for the whole process."""


def _wrap(name: str) -> None:
    original = getattr(functional, name, None)
    if original is not None and original is not _OURS.get(name):
        _OURS[name] = _before(name, original)
        setattr(functional, name, _OURS[name])


def _before(name: str, original: Function) -> Function:
    is_compiling, listeners, partial = torch.compiler.is_compiling, _LISTENERS, functools.partial

    def ours(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the loss's own
        # A compiled model keeps its loss in one graph; it could not be seen from here anyway.
        if is_compiling() or not listeners:
            return original(*args, **kwargs)
        call = original
        for listener in listeners:
            call = partial(listener.call, name, call)
        return call(*args, **kwargs)

    # TorchScript takes the source of what is wrapped, and looks its names up in these globals.
    made = types.FunctionType(ours.__code__, functional.__dict__, None, None, ours.__closure__)
    return functools.wraps(original)(made)

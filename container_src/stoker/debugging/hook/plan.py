"""What is taken of one model at some steps: found out once, so that saved steps stay cheap."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import nn

from stoker.debugging.description import Description
from stoker.debugging.hook.arena import padded_bytes, saved_type
from stoker.debugging.hook.forms import Form, Forms
from stoker.debugging.hook.models import Model, describe_end, describe_gradient, is_loss

_MOST_POSITIONS = 10
"""Inputs or outputs of a module of which a name is tried, to tell whether any is wanted."""


class WantedParameter(NamedTuple):
    """What is wanted of a parameter."""

    description: Description
    gradient: Description | None
    """None where the gradient is not wanted, or there will be none."""
    forms: tuple[Form | None, Form | None]
    """Of the weight, and of the gradient."""

    def copied_bytes(self, weight: torch.Tensor) -> int:
        """Host memory for the copies that are made of it and of its gradient, which is alike."""
        from_cpu = weight.device.type == "cpu"
        copies = sum(form is not None and form.is_copied(from_cpu=from_cpu) for form in self.forms)
        return copies * padded_bytes(weight.numel() * saved_type(weight.dtype).itemsize)


class CapturePlan:
    """For one model, and one set of what is due together."""

    def __init__(self, forms: Forms, model: Model) -> None:
        self._forms, self._model = forms, model
        self.changes = model.changes
        """Of the model, when this was made."""
        self._parameters: dict[str, tuple[bool, WantedParameter | None]] = {}
        """By the name it has in its model: whether it was frozen, and what is wanted."""
        self._has_parameters: bool | None = None
        self._inside: list[tuple[str, weakref.ref[nn.Module], bool]] | None = None

    def parameters(self) -> Iterator[tuple[WantedParameter, nn.Parameter]]:
        """Those of which the weights or the gradients are wanted, as they are now."""
        if self._has_parameters is False:
            return
        self._has_parameters = False
        for name, parameter in self._model.named_parameters():
            if nn.parameter.is_lazy(parameter):
                self._has_parameters = True  # after the first call
                continue
            was_frozen, wanted = self._parameters.get(name, (None, None))
            if was_frozen is not (not parameter.requires_grad):
                wanted = self._want(name, parameter)
                self._parameters[name] = (not parameter.requires_grad, wanted)
            if wanted is not None:
                self._has_parameters = True
                yield wanted, parameter

    def modules(self) -> Iterator[tuple[str, nn.Module, bool]]:
        """The modules inside of which something is wanted: its name, it, whether it is a loss."""
        if self._inside is None:
            self._inside = [
                (name, weakref.ref(module), is_loss(module))
                for name, module in self._model.modules()
                if is_loss(module) or self._is_wanted(name, module)
            ]
        for name, reference, is_of_loss in self._inside:
            module = reference()
            if module is not None:
                yield name, module, is_of_loss

    def _want(self, name: str, parameter: nn.Parameter) -> WantedParameter | None:
        description = self._model.describe(name, parameter)
        gradient = describe_gradient(description) if parameter.requires_grad else None
        forms = self._forms.of(description), self._forms.of(gradient) if gradient else None
        if not any(forms):
            return None
        return WantedParameter(
            description=description,
            gradient=gradient if forms[1] is not None else None,
            forms=forms,
        )

    def _is_wanted(self, name: str, module: nn.Module) -> bool:
        kind = type(module).__name__
        return self._forms.any_of(
            describe_end(name, kind, side, position, is_model=False, is_of_loss=False)
            for position in range(_MOST_POSITIONS)
            for side in ("input", "output")
        )


class CapturePlans:
    """One for each model and set; gone once the model is, and another comes."""

    def __init__(self) -> None:
        self._made: weakref.WeakKeyDictionary[Forms, dict[Model, CapturePlan]]
        self._made = weakref.WeakKeyDictionary()

    def of(self, forms: Forms, model: Model) -> CapturePlan:
        plans = self._made.setdefault(forms, {})
        plan = plans.get(model)
        if plan is None or plan.changes != model.changes:
            for gone in [m for m in plans if m.module is None]:
                del plans[gone]
            plan = plans[model] = CapturePlan(forms, model)
        return plan

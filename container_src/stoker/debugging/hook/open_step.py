"""A step while it runs: its tensors are copied as they come, before the training changes them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from stoker.debugging.description import Description
from stoker.debugging.hook.arena import Arena, saved_type
from stoker.debugging.hook.flatten import plain, tensors_in
from stoker.debugging.hook.forms import Form, Forms
from stoker.debugging.hook.models import describe_end
from stoker.debugging.hook.plan import WantedParameter
from stoker.debugging.hook.reduce import reduce, reduce_on_device
from stoker.debugging.step_tensors import Mode
from stoker.debugging.tensors.step_file import SavedStep

_RECORD_BYTES = 1024
"""About what Python keeps of a tensor in addition to its content: name, description, views."""


class OpenStep:
    """What is saved of one step."""

    def __init__(
        self,
        step: int,
        mode: Mode,
        mode_step: int,
        forms: Forms,
        arena: Arena,
        *,
        limit_bytes: int = 1 << 30,
    ) -> None:
        self.step, self.mode, self.mode_step = step, mode, mode_step
        self.forms = forms
        self.arena = arena
        self._limit_bytes = limit_bytes
        """Of inputs, outputs and losses: weights and gradients are no more than the model has."""
        self._ends_bytes = 0
        self.is_cut = False
        """Some of them had no room any more."""
        self.described: dict[str, Description] = {}
        """What was saved, by name."""
        self.histograms: dict[str, tuple[str, ...]] = {}
        self._views: dict[str, torch.Tensor] = {}
        """The copies …"""
        self._forms: dict[str, Form] = {}
        """… and what is made of each."""
        self._later: dict[str, tuple[tuple[str, ...], torch.Tensor]] = {}
        """Reductions that are made on another device."""
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._positions: dict[tuple[str, str], int] = {}
        self._devices: set[torch.device] = set()
        """That copies or reductions come from …"""
        self._copied: list[torch.cuda.Event] = []
        """… and the moment at which each has sent its last."""

    def take(self, tensor: Description, value: torch.Tensor) -> None:
        """Saves a tensor if it is wanted; the last one of a name counts."""
        form = self.forms.of(tensor)
        if form is not None:
            found = plain(value)
            if found is not None:
                self._take(tensor, form, found)

    def take_parameters(self, found: Sequence[tuple[WantedParameter, nn.Parameter]]) -> None:
        """The weights among them; room for their gradients is made, too."""
        # What is really there: a parameter may be another rank's for the most part, or on `meta`.
        here = [(w, dense) for w, parameter in found if (dense := plain(parameter)) is not None]
        wanted_bytes = sum(wanted.copied_bytes(dense) for wanted, dense in here)
        self.arena.reserve(min(wanted_bytes, self._limit_bytes))
        weights = [(w.description, w.forms[0], dense) for w, dense in here]
        self._take_all([(of, form, dense) for of, form, dense in weights if form is not None])

    def _take_all(self, found: Sequence[tuple[Description, Form, torch.Tensor]]) -> None:
        """Many at once: those that are copied, in one call."""
        copies: tuple[list[torch.Tensor], list[torch.Tensor]] = ([], [])
        for tensor, form, value in found:
            if value.device.type == "cpu" and form.is_copied(from_cpu=True):
                copies[0].append(self._room(tensor, form, value))
                copies[1].append(value)
                self._note(tensor, form, value)
            else:
                self._take(tensor, form, value)
        if copies[0]:
            # One call for all weights: a model has hundreds of small ones.
            torch._foreach_copy_(*copies)

    def take_ends(
        self,
        name: str,
        module_class: str,
        side: str,
        values: object,
        *,
        is_model: bool = False,
        is_of_loss: bool = False,
    ) -> None:
        """The inputs or outputs of a call. A second call in the same step counts on."""
        position = self._positions.get((name, side), 0)
        for value in tensors_in(values):
            # A loss costs nothing, and comes last.
            if self._ends_bytes > self._limit_bytes and value.numel() != 1:
                self.is_cut = True
                break
            before_bytes = self._held_bytes()
            tensor = describe_end(
                name, module_class, side, position, is_model=is_model, is_of_loss=is_of_loss
            )
            self.take(tensor, value)
            self._ends_bytes += self._held_bytes() - before_bytes
            position += 1
        self._positions[name, side] = position

    def make(self) -> SavedStep:
        """The step, for files. Called by the writer's thread, while copies may be under way."""
        for event in self._copied:
            event.synchronize()
        reductions = {
            name: dict(zip(names, values.tolist(), strict=True))
            for name, (names, values) in self._later.items()
        }
        for name, form in self._forms.items():
            if form.reductions and name not in reductions:
                reductions[name] = reduce(self._views[name], form.reductions)
        values = {n: v.numpy() for n, v in self._views.items() if self._forms[n].has_values}
        return SavedStep(
            step=self.step,
            mode=self.mode,
            mode_step=self.mode_step,
            tensors=values,
            reductions=reductions,
            shapes=self._shapes,
        )

    def end(self) -> None:
        """Nothing comes any more."""
        for device in self._devices:
            if device.type == "cuda":  # others copy at once
                # On each device: an event of the current one says nothing about copies from
                # another.
                event = torch.cuda.Event()  # type: ignore[no-untyped-call]
                event.record(torch.cuda.current_stream(device))
                self._copied.append(event)

    def _held_bytes(self) -> int:
        return self.arena.used_bytes + _RECORD_BYTES * len(self.described)

    def _take(self, tensor: Description, form: Form, value: torch.Tensor) -> None:
        is_here = value.device.type == "cpu"
        if not is_here:
            self._devices.add(value.device)
        if form.is_copied(from_cpu=is_here):
            self._room(tensor, form, value).copy_(value, non_blocking=True)
        if form.reductions and not is_here:
            self._later[tensor.name] = (form.reductions, reduce_on_device(value, form.reductions))
        self._note(tensor, form, value)

    def _note(self, tensor: Description, form: Form, value: torch.Tensor) -> None:
        # Of a tensor without elements reductions are NaN; its shape tells that from a real one.
        if form.has_shape or (form.reductions and not value.numel()):
            self._shapes[tensor.name] = tuple(value.shape)
        self.described.setdefault(tensor.name, tensor)

    def _room(self, tensor: Description, form: Form, value: torch.Tensor) -> torch.Tensor:
        known = self._views.get(tensor.name)
        if known is not None and known.shape == value.shape:
            return known
        room = self.arena.room(tensor.name, value.shape, saved_type(value.dtype))
        self._views[tensor.name] = room
        self._forms[tensor.name] = form
        if form.histograms and form.has_values:
            self.histograms[tensor.name] = form.histograms
        return room

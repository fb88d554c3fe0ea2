"""What the hook sees of a training: calls of models and losses, and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import nn
from torch.nn.utils.parametrize import ParametrizationList
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.hooks import RemovableHandle

from stoker.debugging.description import Description
from stoker.debugging.hook.calls import OutermostCalls, Visit
from stoker.debugging.hook.flatten import loss_in
from stoker.debugging.hook.losses import FunctionalLosses, loss_name
from stoker.debugging.hook.models import (
    Model,
    Models,
    has_compiler,
    is_cuda_graph_made,
    is_loss,
    is_unusual_call,
    unwrap,
)
from stoker.debugging.hook.open_step import OpenStep
from stoker.debugging.hook.plan import CapturePlan, CapturePlans
from stoker.debugging.hook.recorder import TensorRecorder
from stoker.debugging.step_tensors import Mode

_MOST_FROZEN_CALLS = 8

Start = Callable[[], TensorRecorder | None]
Guard = Callable[[Callable[..., Any]], Callable[..., Any]]


class Capture:
    """Follows the models of this process and gives the recorder what is due."""

    def __init__(self, start: Start, *, guard: Guard) -> None:
        """
        Args:
            start: called before each step for the recorder of its tensors; None to save nothing.
            guard: made around each function that torch calls, so that none of them raises.
        """
        self._start = start
        self._recorder: TensorRecorder | None = None
        self._guard = guard
        self._models = Models()
        self._is_loss: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()
        self._seen: set[Model] = set()
        """The models that were called in this step, as a whole or in part …"""
        self._called: WeakSet[nn.Module] = WeakSet()
        """… and exactly these modules."""
        self._mode: Mode | None = None
        self._has_loss = False
        """A loss was seen in this step."""
        self._is_learnt = False
        """An optimizer has made its step since this one began."""
        self._frozen_calls = 0
        """Of frozen models, after that, which had been called in this step already."""
        # torch's global hook: of all optimizers, also those that are made later.
        self._optimizers = register_optimizer_step_post_hook(self._learn)
        self._plans = CapturePlans()
        self._gradients: list[RemovableHandle] = []
        self._listened: set[Model] = set()
        """The models whose gradients are waited for."""
        self._inside: list[RemovableHandle] = []
        self.calls = OutermostCalls(guard(self._enter))
        self.losses = FunctionalLosses(
            guard(self._on_functional_loss), is_followed=self.calls.is_followed
        )

    def close(self) -> None:
        """Leaves torch as it was."""
        self.calls.close()
        self.losses.close()
        self._optimizers.remove()
        self._recorder = None  # and with it its memory
        _remove(self._gradients)
        _remove(self._inside)

    def _learn(self, *_: object) -> None:
        if not torch.compiler.is_compiling():
            self._is_learnt = True

    def _open(self) -> OpenStep | None:
        """The step that runs now, if it is saved."""
        return None if self._recorder is None else self._recorder.open

    def _enter(self, module: nn.Module) -> Visit | None:
        if is_unusual_call():
            return None
        if isinstance(module, ParametrizationList):
            return _look_away  # a weight is read, which is computed when it is read
        # What an error in the call before has left.
        self.losses.is_quiet = False
        _remove(self._inside)
        loss = self._is_loss.get(module)
        if loss is None:
            # What learns before any model was seen is the model, whatever it is called.
            is_model = self._mode is None and any(p.requires_grad for p in module.parameters())
            loss = self._is_loss[module] = is_loss(module) and not is_model
        if loss:
            return self._enter_loss(module)
        model = self._models.find(module)
        return None if model is None else self._enter_model(model, module)

    def _enter_loss(self, module: nn.Module) -> Visit | None:
        if self._open() is None and not any(True for _ in module.children()):
            return None
        if isinstance(module, torch.jit.ScriptModule):  # its end is not seen
            return None
        self.losses.is_quiet = True
        return self._guard(self._leave_loss)

    def _leave_loss(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: object
    ) -> None:
        self.losses.is_quiet = False
        kind = type(module).__name__
        name = kind if kind.lower().endswith("loss") else loss_name(kind)
        self._take_loss(name, kind, (args, kwargs), result)

    def _on_functional_loss(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: object
    ) -> None:
        if self._open() is not None and not is_unusual_call():
            self._take_loss(loss_name(name), name, (args, kwargs), result)

    def _take_loss(self, name: str, kind: str, given: object, result: object) -> None:
        step = self._open()
        if step is None:
            return
        self._has_loss = True
        with torch.no_grad():
            step.take_ends(name, kind, "input", given, is_of_loss=True)
            step.take_ends(name, kind, "output", result, is_of_loss=True)

    def _enter_model(self, model: Model, module: nn.Module) -> Visit | None:
        inner = unwrap(module)
        # A part that stays in eval mode, such as a frozen body, is trained with its model.
        mode: Mode = "TRAIN" if (module if model.is_whole(inner) else model).training else "EVAL"
        if self._begins_step(model, inner, mode):
            _remove(self._gradients)
            self._listened.clear()
            self._seen.clear()
            self._called.clear()
            self._mode, self._has_loss, self._is_learnt = mode, False, False
            self._frozen_calls = 0
            self._recorder = self._start()
            if self._recorder is None:
                return None
            self._recorder.next_step(mode)
            self._listen_to_others(model)
        elif inner in self._called and self._is_learnt:
            self._count_frozen_call()
        step = self._open()
        if step is not None:
            model.refresh()
            plan = self._plans.of(step.forms, model)
            if model not in self._seen:
                self._take_parameters(step, plan)
            self._listen_to_gradients(model, plan)
            if not has_compiler(module):
                self._listen_inside(plan, exclude=inner)
        self._seen.add(model)
        self._called.add(inner)
        return self._guard(self._leave_model)

    def _begins_step(self, model: Model, module: nn.Module, mode: Mode) -> bool:
        """A step is a call of a model, as in smdebug; several, or parts of one, may share it."""
        if self._mode is None or all(seen.module is None for seen in self._seen):
            return True  # the first of all, or of the next fold: the model before is gone
        is_other = mode != self._mode
        if module in self._called or (model in self._seen and (is_other or self._is_learnt)):
            return model.has_trainable or not self._models.has_trainable()
        # A teacher, frozen or in eval mode, belongs to the step of the model that learns.
        is_teacher = mode == "EVAL" and not self._is_learnt
        return model.has_trainable and is_other and not is_teacher

    def _count_frozen_call(self) -> None:
        """A frozen model that is called repeatedly after the optimizer is not a teacher any more.

        It makes a score such as FID, say, over thousands of images: each call adds to the step,
        so that ends here. A few may come before a second optimizer has its turn.
        """
        self._frozen_calls += 1
        if self._frozen_calls > _MOST_FROZEN_CALLS and self._recorder is not None:
            _remove(self._gradients)
            self._recorder.end_step()

    def _leave_model(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: object
    ) -> None:
        _remove(self._inside)
        step = self._open()
        model = self._models.find(module)
        if step is None or model is None:
            return
        inner = unwrap(module)
        name, kind, is_model = model.name_of(inner), type(inner).__name__, model.is_whole(inner)
        with torch.no_grad():
            step.take_ends(name, kind, "input", (args, kwargs), is_model=is_model)
            step.take_ends(name, kind, "output", result, is_model=is_model)
        loss = loss_in(result)
        if loss is not None and not self._has_loss:  # made within a compiled model
            self._take_loss(f"{model.label}_loss", kind, (), loss)

    def _take_parameters(self, step: OpenStep, plan: CapturePlan) -> None:
        found = list(plan.parameters())
        if not found:
            return
        with torch.no_grad():
            step.take_parameters(found)

    def _listen_to_others(self, model: Model) -> None:
        """A generator may be called in one step, and get its gradients in another one."""
        step = self._open()
        if step is None:
            return
        for other in self._models.all():
            if other is not model and other.has_trainable:
                self._listen_to_gradients(other, self._plans.of(step.forms, other))

    def _listen_to_gradients(self, model: Model, plan: CapturePlan) -> None:
        if self._mode != "TRAIN" or model in self._listened:
            return
        self._listened.add(model)
        for wanted, parameter in plan.parameters():
            if wanted.gradient is not None:
                take = self._guard(_Gradient(self._open, wanted.gradient))
                # The gradient of this backward pass, as smdebug saves it; `.grad` may hold the sum
                # of several.
                handle = parameter.register_hook(take)  # type: ignore[no-untyped-call]
                self._gradients.append(handle)

    def _listen_inside(self, plan: CapturePlan, *, exclude: nn.Module) -> None:
        """Of the modules inside, those with something that is wanted; until the call ends."""
        for name, module, is_of_loss in plan.modules():
            if module is exclude:
                continue
            if is_of_loss:
                self._listen_to_inner_loss(module)
            else:
                ends = _Ends(self._open, name)
                # Inputs before the call: a module may work in place.
                begin_hook = self.calls.make_hook(self._guard(ends.take_inputs))
                end_hook = self.calls.make_hook(self._guard(ends.take_outputs))
                self._inside += [
                    module.register_forward_pre_hook(begin_hook, with_kwargs=True),
                    module.register_forward_hook(end_hook, with_kwargs=True),
                ]

    def _listen_to_inner_loss(self, module: nn.Module) -> None:
        def begin(*_: object) -> None:
            self.losses.is_quiet = True

        begin_hook = self.calls.make_hook(begin)
        end_hook = self.calls.make_hook(self._guard(self._leave_loss))
        self._inside += [
            module.register_forward_pre_hook(begin_hook),
            module.register_forward_hook(end_hook, with_kwargs=True, always_call=True),
        ]


class _Gradient:
    """Takes one gradient as it comes out of the backward pass, before it is added to others."""

    def __init__(self, open_step: Callable[[], OpenStep | None], description: Description) -> None:
        self._open, self._description = open_step, description

    def __call__(self, gradient: torch.Tensor) -> None:
        step = self._open()
        # A warm-up before the graph is made has left its hooks on the parameters.
        if step is not None and not is_cuda_graph_made():
            with torch.no_grad():
                step.take(self._description, gradient)


class _Ends:
    """Takes what a module inside a model is given and what it gives."""

    def __init__(self, open_step: Callable[[], OpenStep | None], name: str) -> None:
        self._open, self._name = open_step, name

    def take_inputs(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self._take(module, "input", (args, kwargs))

    def take_outputs(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: object
    ) -> None:
        self._take(module, "output", result)

    def _take(self, module: nn.Module, side: str, values: object) -> None:
        step = self._open()
        if step is not None:
            with torch.no_grad():
                step.take_ends(self._name, type(module).__name__, side, values)


def _look_away(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: object
) -> None:
    """The end of a call that is ignored, with the calls inside."""


def _remove(handles: list[RemovableHandle]) -> None:
    for handle in handles:
        handle.remove()
    handles.clear()

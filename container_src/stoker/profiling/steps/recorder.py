"""The step recorder: torch's hooks on one side, its files on the other."""

from __future__ import annotations

import atexit
import functools
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.data import DataLoader

from stoker.contract.profiler import ProfilerSettings
from stoker.profiling.steps import step_timer
from stoker.profiling.steps.device_clock import DeviceClock
from stoker.profiling.steps.facts import Process
from stoker.profiling.steps.loaders import count_ready, describe_loader
from stoker.profiling.steps.outputs import Outputs
from stoker.profiling.steps.step_timer import Step, StepTimer

LOOK_SECONDS = 2.0
"""Between two looks at profilerconfig.json."""

_MOST_EARLY = 16
_LOG = logging.getLogger(__name__)


class StepRecorder:
    """Receives what this process does and passes on its steps.

    Each method is called from within the script's own calls, so none of them raises: after an
    internal error the recorder is silent, with one warning.
    """

    def __init__(
        self,
        settings: ProfilerSettings,
        process: Process,
        *,
        refresh: Callable[[], ProfilerSettings],
    ) -> None:
        """Args:
        settings: what is asked for.
        process: which one of the job this is.
        refresh: the settings as they are now.
        """
        self._settings = settings
        self._process = process
        self._refresh = refresh
        self._is_on = settings.steps
        self._is_forked = False
        self._next_look = 0.0
        self._timer = StepTimer(self._take)
        self._device = DeviceClock()
        # Steps are timed by the clock that is never set back; files have Unix time.
        self._epoch = time.time() - time.perf_counter()
        self._outputs: Outputs | None = None
        self._early_loaders: list[tuple[str, float, float, int, Mapping[str, Any]]] = []
        """That started before the first step ended: until then there are no files."""
        self._optimizers: list[tuple[int, int]] = []
        """That make a step now: who, and what the timer has given."""

    def attach(self) -> None:
        """Registers everything but the calls of modules."""
        register_optimizer_step_pre_hook(self.before_optimizer)
        register_optimizer_step_post_hook(self.after_optimizer)
        atexit.register(self.close)
        os.register_at_fork(after_in_child=self._start_again_in_child)

    def enter_module(self, module: nn.Module) -> Callable[..., None] | None:
        """An outermost module is called."""
        if not self._is_on:
            return None
        try:
            has_gradients = torch.is_grad_enabled()
            is_evaluation = not (module.training and has_gradients)
            if not is_evaluation:
                self._process.look_at(module)
            depth = self._timer.begin_forward(
                is_evaluation=is_evaluation, is_apart=not (module.training or has_gradients)
            )
            if depth < 0:
                return None
            self._device.begin(step_timer.FORWARD)
            return functools.partial(self._leave_module, depth)
        except Exception as error:
            self._fail(error)
            return None

    def _leave_module(self, depth: int, *_: object) -> None:
        self._timer.end(depth)
        self._device.end(step_timer.FORWARD)

    def backward(self, compute: Callable[..., None]) -> Callable[..., None]:
        """Wraps torch.autograd.backward, for which there is no hook that leaves graphs alone."""

        @functools.wraps(compute)
        def compute_and_tell(*given: Any, **named: Any) -> None:  # noqa: ANN401 - torch's own
            depth = self._begin_backward()
            try:
                compute(*given, **named)
            finally:
                if depth >= 0:
                    self._timer.end(depth)
                    self._device.end(step_timer.BACKWARD)

        return compute_and_tell

    def timed(self, part: int, action: Callable[..., Any]) -> Callable[..., Any]:
        """Wraps what belongs to another part, such as torch.save."""

        @functools.wraps(action)
        def do_and_tell(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever it takes
            is_counted = self._is_on and not self._is_forked and self._timer.is_followed()
            depth = self._timer.begin(part) if is_counted else -1
            try:
                return action(*given, **named)
            finally:
                self._timer.end(depth)

        return do_and_tell

    def before_optimizer(self, optimizer: Optimizer, args: object, kwargs: object) -> None:
        if self._is_forked:
            self._start_in_child()
        if not self._is_on:
            self._look_whether_on()
            return
        try:
            self._end_failed_step(optimizer)
            self._optimizers.append((id(optimizer), self._timer.begin_optimizer(optimizer)))
            self._device.begin(step_timer.OPTIMIZER)
        except Exception as error:
            self._fail(error)

    def after_optimizer(self, optimizer: Optimizer, args: object, kwargs: object) -> None:
        if not self._optimizers or not self._timer.is_followed():
            return
        self._timer.end_optimizer(self._optimizers.pop()[1], optimizer)
        self._device.end(step_timer.OPTIMIZER)

    def begin_epoch(self) -> int:
        if not self._is_on:
            return -1
        try:
            return self._timer.begin_epoch()
        except Exception as error:
            self._fail(error)
            return -1

    def end_epoch(self, token: int, loader: DataLoader[Any], iterator: Iterator[Any]) -> None:
        if token < 0:
            return
        try:
            begun = self._timer.begun_at(token)
            self._timer.end(token)
            is_training = torch.is_grad_enabled() and self._process.is_in_training_mode
            described = describe_loader(loader, is_training=is_training)
            self._process.add_loader(described)
            started = (
                *(type(iterator).__name__, self._epoch + begun, self._epoch + self._now()),
                *(self._timer.next_train_step, described),
            )
            if self._outputs is not None:
                self._outputs.add_loader(*started)
            elif len(self._early_loaders) < _MOST_EARLY:
                self._early_loaders.append(started)
        except Exception as error:
            self._fail(error)

    def begin_fetch(self, iterator: Iterator[Any]) -> int:
        if not self._is_on:
            return -1
        try:
            return self._timer.begin_fetch(count_ready(iterator))
        except Exception as error:
            self._fail(error)
            return -1

    def end_fetch(self, token: int, *, is_batch: bool) -> None:
        if token >= 0:
            self._timer.end_fetch(token, is_batch=is_batch)

    def close(self) -> None:
        """The script has ended."""
        if self._is_forked:
            return
        try:
            tail = self._timer.close()
            if self._outputs is not None:
                self._outputs.close(tail)
        except Exception as error:
            self._fail(error)
        self._is_on = False

    def _end_failed_step(self, optimizer: Optimizer) -> None:
        # An error inside a step, which the script has caught: the hook after it was not called.
        for place, (who, depth) in enumerate(self._optimizers):
            if who == id(optimizer):
                self._timer.end(depth)
                del self._optimizers[place:]
                return

    def _begin_backward(self) -> int:
        if not self._is_on:
            return -1
        try:
            depth = self._timer.begin_backward()
            if depth >= 0:
                self._device.begin(step_timer.BACKWARD)
            return depth
        except Exception as error:
            self._fail(error)
            return -1

    def _take(self, step: Step) -> None:
        try:
            if self._outputs is None:
                self._outputs = Outputs(self._settings, self._process, self._epoch, _tell)
                for started in self._early_loaders:
                    self._outputs.add_loader(*started)
                self._early_loaders.clear()
            self._outputs.take(step, self._device.finish_step())
            now = step.start + step.total
            if now >= self._next_look:
                self._next_look = now + LOOK_SECONDS
                self._follow(self._refresh())
        except Exception as error:
            self._fail(error)

    def _follow(self, settings: ProfilerSettings) -> None:
        self._is_on = settings.steps
        if self._outputs is not None:
            self._outputs.follow(settings)
            if not self._is_on:
                self._outputs.flush()

    def _look_whether_on(self) -> None:
        now = self._now()
        if now < self._next_look or self._outputs is None:
            return
        self._next_look = now + LOOK_SECONDS
        try:
            self._is_on = self._refresh().steps
            # What passed while it was switched off is not a step.
            self._timer.skip()
        except Exception as error:
            self._fail(error)

    def _start_again_in_child(self) -> None:
        """Silent until this process trains: most are loaders' workers, or start a program."""
        if self._outputs is not None:
            self._outputs.forget()
        self._outputs = None
        self._early_loaders.clear()
        self._is_forked, self._is_on = True, False
        self._optimizers.clear()

    def _start_in_child(self) -> None:
        # A loader's worker: its time is part of the parent's data_wait.
        if torch.utils.data.get_worker_info() is not None:
            return
        self._is_forked, self._is_on = False, self._settings.steps
        self._process = self._process.in_child()
        self._timer.start_again()

    def _fail(self, error: Exception) -> None:
        self._is_on = False
        # Also for processes that are forked from now on.
        self._settings = self._settings.replace(steps=False)
        _tell(f"{type(error).__name__}: {error}")
        _LOG.debug("the step recorder has failed", exc_info=error)

    def _now(self) -> float:
        return time.perf_counter()


def _tell(trouble: str) -> None:
    print(f"[stoker] warning: steps are no longer recorded: {trouble}", file=sys.stderr)

"""Settings that are tried in an unmodified script: loader, threads, batch, precision, saving.

STOKER_TRY="workers=2 prefetch=4 steps=30" is what `stoker advise` sets for its experiments. The
script's own values are replaced where torch receives them; after `steps` optimizer steps the
process ends as if the script had.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook
from torch.utils.data import DataLoader

from stoker.contract.job import read_job
from stoker.errors import ConfigInvalid

VARIABLE = "STOKER_TRY"


@dataclass(frozen=True, kw_only=True, slots=True)
class Overrides:
    """What is tried; what is None stays as the script has it."""

    workers: int | None = None
    prefetch: int | None = None
    pin_memory: int | None = None
    persistent_workers: int | None = None
    batch_size: int | None = None
    threads: int | None = None
    amp: int | None = None
    channels_last: int | None = None
    compile: int | None = None
    save_interval: int | None = None
    """Only each so many-th file of `torch.save` is written."""
    steps: int | None = None
    """After so many the process ends."""


def read_overrides(text: str) -> Overrides:
    """`workers=2 amp` as values; a name alone means 1.

    Raises:
        ConfigInvalid: there is no such setting, or a value is not a whole number.
    """
    known = {field.name for field in fields(Overrides)}
    found: dict[str, int] = {}
    for word in text.replace(",", " ").split():
        name, _, value = word.partition("=")
        number = value or "1"
        if name not in known or not number.isdigit():
            raise ConfigInvalid(
                f"{VARIABLE} has {word!r}",
                fix=f"NAME=NUMBER with one of {', '.join(sorted(known))}",
            )
        found[name] = int(number)
    return Overrides(**found)


def apply_overrides() -> None:
    """From now on in this process, once torch is there.

    Raises:
        ConfigInvalid: the variable is not valid.
    """
    wanted = read_overrides(read_job().environ.get(VARIABLE, ""))
    if wanted.threads is not None:
        torch.set_num_threads(max(1, wanted.threads))
    if wanted.amp:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        torch.set_autocast_enabled(device, True)
        torch.set_autocast_dtype(device, torch.bfloat16)  # needs no scaler
    if wanted.save_interval:
        torch.save = _skip_saves(torch.save, wanted.save_interval)
    _change_loaders(wanted)
    if wanted.channels_last or wanted.compile:
        _change_first_module(wanted)
    if wanted.steps or wanted.amp:
        register_optimizer_step_post_hook(_StepLimit(wanted).after_step)


def _change_loaders(wanted: Overrides) -> None:
    make: Any = DataLoader.__init__
    signature = inspect.signature(make)

    @wraps(make)
    def make_changed(*args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - as torch has it
        given = dict(signature.bind(*args, **kwargs).arguments)
        make(given.pop("self"), **_change(given, wanted))

    DataLoader.__init__ = make_changed  # type: ignore[method-assign] # there is no hook for it


def _change(given: dict[str, Any], wanted: Overrides) -> dict[str, Any]:
    """The arguments of one loader."""
    changed = dict(given)
    if wanted.batch_size and given.get("batch_sampler") is None:
        changed["batch_size"] = wanted.batch_size
    if wanted.workers is not None:
        changed["num_workers"] = wanted.workers
    if wanted.pin_memory is not None:
        changed["pin_memory"] = bool(wanted.pin_memory)
    has_workers = changed.get("num_workers", 0) > 0
    if wanted.prefetch is not None and has_workers:
        changed["prefetch_factor"] = wanted.prefetch
    if wanted.persistent_workers is not None and has_workers:
        changed["persistent_workers"] = bool(wanted.persistent_workers)
    if not has_workers:  # torch refuses them without workers
        for name in ("prefetch_factor", "persistent_workers", "multiprocessing_context"):
            changed.pop(name, None)
    return changed


def _change_first_module(wanted: Overrides) -> None:
    """The first module that is called is the model, or holds it."""
    handles: list[Any] = []

    def change(module: torch.nn.Module, _inputs: object) -> None:
        if not handles:
            return
        handles.pop().remove()
        if wanted.channels_last:
            module.to(memory_format=torch.channels_last)  # type: ignore[call-overload] # torch's own overloads lack it
        if wanted.compile:
            module.compile()

    handles.append(torch.nn.modules.module.register_module_forward_pre_hook(change))


def _skip_saves(save: Callable[..., Any], interval: int) -> Callable[..., Any]:
    calls = 0

    @wraps(save)
    def save_sometimes(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as torch has it
        nonlocal calls
        calls += 1
        return save(*args, **kwargs) if calls % interval == 0 else None

    return save_sometimes


class _StepLimit:
    """Counts the steps of the first optimizer."""

    def __init__(self, wanted: Overrides) -> None:
        self._wanted = wanted
        self._first: int | None = None
        self._steps = 0

    def after_step(self, optimizer: Optimizer, _args: object, _kwargs: object) -> None:
        if self._first is None:
            self._first = id(optimizer)
        if id(optimizer) != self._first:
            return
        self._steps += 1
        if self._wanted.amp:
            torch.clear_autocast_cache()  # it holds weights of the step before
        if self._wanted.steps and self._steps >= self._wanted.steps:
            # As the end of the script: finally blocks and exit handlers run.
            raise SystemExit(0)

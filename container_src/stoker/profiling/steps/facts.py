"""What is true of a process that trains: where it is, on what, and with which loaders."""

from __future__ import annotations

import contextlib
import os
import time
import weakref
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from stoker.bus.step_records import StepFacts
from stoker.profiling.steps.loaders import add_loader


class Process:
    """This process of the job; becomes complete while the script shows what it does."""

    def __init__(self, host: str, rank: int, world_size: int, *, is_launched: bool) -> None:
        self.facts = StepFacts(
            host=host, rank=rank, world_size=world_size, pid=os.getpid(), started=time.time()
        )
        # Underscores separate the parts of the files' names.
        self.node = f"{rank if is_launched else os.getpid()}-{host}".replace("_", "-")
        """As SageMaker's readers name it."""
        self.is_changed = True
        self.is_in_training_mode = True
        self._model: weakref.ref[nn.Module] | None = None
        self._is_known = False

    def in_child(self) -> Process:
        """The same, forked."""
        facts = self.facts
        return Process(facts.host, facts.rank, facts.world_size, is_launched=False)

    def look_at(self, module: nn.Module) -> None:
        """Notes the first large module that is trained, once."""
        known = self._model() if self._model is not None else None
        if known is module or self._is_known:
            return
        parameters = list(module.parameters())
        count = sum(p.numel() for p in parameters)
        if not parameters:
            return
        self._model, self._is_known = weakref.ref(module), True
        device = parameters[0].device
        is_cpu = device.type == "cpu"
        autocast = ""
        with contextlib.suppress(RuntimeError):  # a device without it
            if torch.is_autocast_enabled(device.type):
                autocast = str(torch.get_autocast_dtype(device.type)).removeprefix("torch.")
        size_bytes = sum(p.numel() * p.element_size() for p in parameters)
        self.change(
            device=device.type,
            device_name="" if is_cpu else _device_name(device),
            threads=torch.get_num_threads(),
            cpus=len(os.sched_getaffinity(0)),
            torch=torch.__version__,
            is_compiled=_is_compiled(module),
            autocast=autocast,
            parameters=count,
            parameter_bytes=size_bytes,
        )

    def add_loader(self, described: Mapping[str, Any]) -> None:
        """Notes a kind of DataLoader."""
        if add_loader(self.facts.loaders, described):
            self.change(loaders=(*self.facts.loaders, described))

    def read_memory(self) -> None:
        """Notes what the accelerator's memory has held."""
        if self.facts.device != "cuda":
            return
        with contextlib.suppress(RuntimeError):
            self.change(
                device_memory={
                    "allocated_peak": torch.cuda.max_memory_allocated(),
                    "reserved_peak": torch.cuda.max_memory_reserved(),
                    "total": torch.cuda.get_device_properties(0).total_memory,
                }
            )

    def change(self, **facts: object) -> None:
        self.facts = self.facts.replace(**facts)
        self.is_changed = True


def _is_compiled(module: nn.Module) -> bool:
    # OptimizedModule of torch.compile(model), or model.compile(); perhaps within DDP.
    inner = getattr(module, "module", module)
    return any(
        type(m).__name__ == "OptimizedModule" or getattr(m, "_compiled_call_impl", None)
        for m in (module, inner)
    )


def _device_name(device: torch.device) -> str:
    try:
        return str(torch.cuda.get_device_name(device)) if device.type == "cuda" else device.type
    except RuntimeError:
        return device.type

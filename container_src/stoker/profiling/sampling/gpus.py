"""NVIDIA's devices, through nvidia-ml-py where it and a driver are there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from stoker.bus import system_samples as names

# Bits of the reasons for which a clock is slowed: by software or hardware, power or heat.
_SLOWED = 0x4 | 0x8 | 0x20 | 0x40 | 0x80

Event = tuple[str, str, str, float]
"""Type, name, dimension, value."""


class Gpus:
    """The devices of this container; none without a driver."""

    def __init__(self) -> None:
        self.trouble = ""
        """Why there are no figures."""
        self._handles: list[Any] = []
        try:
            self._nvml: Any = import_module("pynvml")
            self._nvml.nvmlInit()
            count = self._nvml.nvmlDeviceGetCount()
            self._handles = [self._nvml.nvmlDeviceGetHandleByIndex(i) for i in range(count)]
        except ImportError:
            self.trouble = "nvidia-ml-py is not installed"
        except Exception as error:  # the library's own, of which there are many
            self.trouble = f"NVML does not answer: {error}"

    def __len__(self) -> int:
        return len(self._handles)

    def read(self) -> Iterator[Event]:
        """What each device does now; what one does not tell is left out."""
        for number, handle in enumerate(self._handles):
            gpu, nvml = f"gpu{number}", self._nvml
            rates = _ask(nvml.nvmlDeviceGetUtilizationRates, handle)
            if rates is not None:
                yield "gpu", gpu, names.GPU_UTILIZATION, float(rates.gpu)
            memory = _ask(nvml.nvmlDeviceGetMemoryInfo, handle)
            if memory is not None and memory.total:
                percent = 100.0 * memory.used / memory.total
                yield "gpu", gpu, names.GPU_MEMORY_UTILIZATION, percent
                yield "gpu", f"{gpu} used", names.GPU_MEMORY_BYTES, float(memory.used)
                yield "gpu", f"{gpu} limit", names.GPU_MEMORY_BYTES, float(memory.total)
            power = _ask(nvml.nvmlDeviceGetPowerUsage, handle)
            if power is not None:
                yield "gpu", gpu, names.GPU_POWER, power / 1000.0
            heat = _ask(nvml.nvmlDeviceGetTemperature, handle, 0)
            if heat is not None:
                yield "gpu", gpu, names.GPU_TEMPERATURE, float(heat)
            reasons = _ask(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
            if reasons is not None:
                yield "gpu", gpu, names.GPU_THROTTLED, float(bool(reasons & _SLOWED))


def _ask(question: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401 - NVML's types
    try:
        return question(*arguments)
    except Exception:  # this device, or this driver, does not tell
        return None

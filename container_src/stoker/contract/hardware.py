"""What this machine has, counted from device files: asking `nvidia-smi` costs a second."""

from __future__ import annotations

import os
import re
from pathlib import Path

from stoker.contract.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_CORES_PER_NEURON_DEVICE = 2  # trn1 and inf2; newer ones say so in sysfs


class Hardware(Record):
    """Processors, accelerators and network devices the container can see."""

    cpus: int
    gpus: int = 0
    neurons: int = 0
    interfaces: tuple[str, ...] = ()
    has_efa: bool = False


def read_hardware(environ: Mapping[str, str]) -> Hardware:
    """Counts devices; a missing folder means none."""
    devices = _names("/dev")
    return Hardware(
        cpus=len(os.sched_getaffinity(0)),
        gpus=_visible(_count(devices, r"nvidia\d+"), environ.get("CUDA_VISIBLE_DEVICES")),
        neurons=_neuron_cores(_matching(devices, r"neuron\d+")),
        interfaces=tuple(sorted(_names("/sys/class/net"))),
        # EFA by device, never by a list of instance names that is always out of date.
        has_efa=any(name.startswith(("efa", "rdmap")) for name in _names("/sys/class/infiniband")),
    )


def _visible(gpus: int, mask: str | None) -> int:
    if mask is None:
        return gpus
    listed = [part.strip() for part in mask.split(",")]
    # CUDA stops reading at the first invalid entry; "-1" and "" therefore hide every device.
    valid = next((i for i, part in enumerate(listed) if part in ("", "-1")), len(listed))
    return min(gpus, valid)


def _neuron_cores(devices: list[str]) -> int:
    return sum(_core_count(device) for device in devices)


def _core_count(device: str) -> int:
    try:
        return int(Path(f"/sys/class/neuron_device/{device}/core_count").read_text())
    except (OSError, ValueError):
        return _CORES_PER_NEURON_DEVICE


def _count(names: list[str], pattern: str) -> int:
    return len(_matching(names, pattern))


def _matching(names: list[str], pattern: str) -> list[str]:
    return [name for name in names if re.fullmatch(pattern, name)]


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []

"""What this machine has, counted from device files: asking `nvidia-smi` costs a second."""

from __future__ import annotations

import os

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
        # os.cpu_count() would count processors that the container may not use (--cpuset-cpus).
        cpus=len(os.sched_getaffinity(0)),
        gpus=_visible(len(_numbered(devices, "nvidia")), environ.get("CUDA_VISIBLE_DEVICES")),
        neurons=sum(_core_count(device) for device in _numbered(devices, "neuron")),
        interfaces=tuple(sorted(_names("/sys/class/net"))),
        # EFA by device, never by a list of instance names that is always out of date.
        # efa_0 is the driver's name, rdmap… what udev makes of it.
        has_efa=any(name.startswith(("efa", "rdmap")) for name in _names("/sys/class/infiniband")),
    )


def _visible(gpus: int, mask: str | None) -> int:
    if mask is None:
        return gpus
    # CUDA stops reading at the first entry that names no device: "-1" and "" hide them all.
    visible = 0
    for entry in (part.strip() for part in mask.split(",")):
        by_index = entry.isascii() and entry.isdigit() and len(entry) < 4 and int(entry) < gpus
        if not by_index and not entry.startswith(("GPU-", "MIG-")):
            break
        visible += 1
    return min(gpus, visible)


def _core_count(device: str) -> int:
    try:
        with open(f"/sys/class/neuron_device/{device}/core_count") as file:
            return int(file.read())
    except (OSError, ValueError):
        return _CORES_PER_NEURON_DEVICE


def _numbered(names: list[str], prefix: str) -> list[str]:
    # The devices nvidia0, nvidia1, … but not nvidiactl and nvidia-uvm.
    return [n for n in names if n.startswith(prefix) and n.removeprefix(prefix).isdigit()]


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []

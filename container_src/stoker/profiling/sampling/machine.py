"""The machine as /proc shows it: cores, memory, network, disks, shared memory."""

from __future__ import annotations

import os

from stoker.profiling.sampling.kernel_file import KernelFile

_TICKS = float(os.sysconf("SC_CLK_TCK"))
_SECTOR_BYTES = 512  # the kernel's unit, whatever the disk has
# Parts of a disk and virtual devices would be counted twice.
_NO_DISKS = (b"loop", b"ram", b"dm-", b"md", b"zram", b"sr", b"fd")


class Machine:
    """Counters since the machine was started; readers take differences."""

    def __init__(self) -> None:
        self._stat = KernelFile("/proc/stat")
        self._meminfo = KernelFile("/proc/meminfo")
        self._net = KernelFile("/proc/net/dev")
        self._disks = KernelFile("/proc/diskstats")
        self._whole_disks: dict[bytes, bool] = {}
        self.cores = sorted(os.sched_getaffinity(0))
        """That this container may use."""
        self._prefixes = {b"cpu%d" % core: core for core in self.cores}

    def core_seconds(self) -> dict[int, tuple[float, float]]:
        """Core → seconds at work, and seconds idle while a disk was waited for."""
        found = {}
        for line in self._stat.read().splitlines():
            if not line.startswith(b"cpu"):
                break  # the cores come first; a long list of interrupts follows
            fields = line.split()
            core = self._prefixes.get(fields[0])
            if core is not None:
                # user nice system idle iowait irq softirq steal; user holds guest
                user, nice, system, _, waiting, irq, soft = map(int, fields[1:8])
                busy = (user + nice + system + irq + soft) / _TICKS
                found[core] = (busy, waiting / _TICKS)
        return found

    def memory_bytes(self) -> tuple[float, float]:
        """In use, and all there is."""
        content = self._meminfo.read()
        total, available = (_kilobytes(content, key) for key in (b"MemTotal:", b"MemAvailable:"))
        return (total - available) * 1024, total * 1024

    def network_bytes(self) -> tuple[float, float]:
        """Received and sent, by all interfaces of the container but the loopback."""
        received = sent = 0
        for line in self._net.read().splitlines()[2:]:
            name, _, rest = line.partition(b":")
            fields = rest.split()
            if name.strip() != b"lo" and len(fields) > 8:
                received += int(fields[0])
                sent += int(fields[8])
        return float(received), float(sent)

    def disk_bytes(self) -> tuple[float, float]:
        """Read and written by the whole machine; -1 if unknown."""
        read = written = 0
        for line in self._disks.read().splitlines():
            fields = line.split()
            if len(fields) > 9 and self._is_whole_disk(fields[2]):
                read += int(fields[5])
                written += int(fields[9])
        if not self._disks.is_there:
            return -1.0, -1.0
        return float(read * _SECTOR_BYTES), float(written * _SECTOR_BYTES)

    def _is_whole_disk(self, name: bytes) -> bool:
        known = self._whole_disks.get(name)
        if known is None:
            is_disk = os.path.isdir(f"/sys/block/{os.fsdecode(name)}")
            known = self._whole_disks[name] = is_disk and not name.startswith(_NO_DISKS)
        return known


def percent_used(folder: str) -> float:
    """How full a file system is; -1 if unknown."""
    try:
        status = os.statvfs(folder)
    except OSError:
        return -1.0
    if not status.f_blocks:
        return -1.0
    return 100.0 * (status.f_blocks - status.f_bavail) / status.f_blocks


def _kilobytes(content: bytes, key: bytes) -> float:
    at = content.find(key)
    words = content[at + len(key) :].split(None, 1) if at >= 0 else []
    return float(words[0]) if words and words[0].isdigit() else 0.0

"""The container's own figures: what its control group has used, and what it may use."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

from stoker.profiling.sampling.kernel_file import KernelFile

_ROOT = "/sys/fs/cgroup"
_NO_LIMIT = 1 << 60
"""Version 1 writes a huge number where there is none."""


class ControlGroup:
    """Reads version 2 and version 1. Each figure is -1 where it cannot be had."""

    def __init__(self, root: str = _ROOT, membership: str = "/proc/self/cgroup") -> None:
        self._is_second = os.path.exists(f"{root}/cgroup.controllers")
        self._folders = dict(_find_folders(root, membership))
        self._usage = self._file("cpuacct", "cpuacct.usage", "cpu.stat")
        self._throttling = self._file("cpu", "cpu.stat", "cpu.stat")
        self._memory = self._file("memory", "memory.usage_in_bytes", "memory.current")
        self._memory_stat = self._file("memory", "memory.stat", "memory.stat")
        self._memory_limit = self._file("memory", "memory.limit_in_bytes", "memory.max")
        self._quota = self._file("cpu", "cpu.cfs_quota_us", "cpu.max")
        self._period = self._file("cpu", "cpu.cfs_period_us", "cpu.max")
        self._input_output = self._file("blkio", "blkio.throttle.io_service_bytes", "io.stat")
        self._pressure = {kind: self._pressure_file(kind) for kind in ("cpu", "memory", "io")}
        self._limit_cores = self.cpu_limit()

    def cpu_seconds(self) -> float:
        """Used by all processes since the container was made."""
        if self._is_second:
            microseconds = self._usage.number_after(b"usage_usec")
            return microseconds / 1e6 if microseconds >= 0 else -1.0
        nanoseconds = self._usage.number()
        return nanoseconds / 1e9 if nanoseconds >= 0 else -1.0

    def cpu_limit(self) -> float:
        """In cores; -1 without a quota."""
        if self._is_second:
            words = self._quota.read().split()
            quota, period = ([*words, b"", b""])[:2]
            return float(quota) / float(period) if quota.isdigit() and period.isdigit() else -1.0
        quota_us, period_us = self._quota.number(), self._period.number()
        return quota_us / period_us if quota_us > 0 and period_us > 0 else -1.0

    def throttled(self) -> tuple[float, float]:
        """Periods of the scheduler in which the quota stopped the container, and all of them."""
        if self._limit_cores < 0:
            return -1.0, -1.0
        return (
            self._throttling.number_after(b"nr_throttled"),
            self._throttling.number_after(b"nr_periods"),
        )

    def memory_bytes(self) -> float:
        """In use, without the cache of files that the kernel would give back."""
        used = self._memory.number()
        if used < 0:
            return -1.0
        key = b"inactive_file" if self._is_second else b"total_inactive_file"
        return used - max(0.0, self._memory_stat.number_after(key, 0.0))

    def memory_limit_bytes(self) -> float:
        limit = self._memory_limit.number()
        return limit if 0 < limit < _NO_LIMIT else -1.0

    def disk_bytes(self) -> tuple[float, float]:
        """Read and written; -1 where the kernel does not count it for containers."""
        content = self._input_output.read()
        if not self._input_output.is_there:
            return -1.0, -1.0
        words = content.replace(b"=", b" ").lower().split()
        keys = (b"rbytes", b"wbytes") if self._is_second else (b"read", b"write")
        sums = [_sum_after(words, key) for key in keys]
        return sums[0], sums[1]

    def stalled_seconds(self) -> dict[str, float]:
        """Seconds lost to waiting so far: `cpu some`, `memory full`, …"""
        found = {}
        for kind, file in self._pressure.items():
            for line in file.read().splitlines():
                share, _, rest = line.partition(b" ")
                total = rest.rpartition(b"total=")[2]
                if total.isdigit():
                    found[f"{kind} {share.decode('ascii', 'replace')}"] = int(total) / 1e6
        return found

    def _file(self, controller: str, first: str, second: str) -> KernelFile:
        name = second if self._is_second else first
        folder = self._folders.get("" if self._is_second else controller, "/nowhere")
        return KernelFile(f"{folder}/{name}")

    def _pressure_file(self, kind: str) -> KernelFile:
        own = KernelFile(f"{self._folders.get('', '/nowhere')}/{kind}.pressure")
        return own if own.read() else KernelFile(f"/proc/pressure/{kind}")


def _find_folders(root: str, membership: str) -> Iterator[tuple[str, str]]:
    """Controller → folder; version 2 has one folder, under the name "".

    In a container its own group is often mounted as the root, and the path in /proc/self/cgroup
    is the host's.
    """
    for line in KernelFile(membership).read().decode("utf-8", "replace").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for controller in controllers.split(","):
            for mount in (f"{root}/{controllers}", f"{root}/{controller}"):
                found = [f for f in (f"{mount}{path}".rstrip("/"), mount) if os.path.isdir(f)]
                if found:
                    yield controller, found[0].rstrip("/")
                    break


def _sum_after(words: list[bytes], key: bytes) -> float:
    pairs = itertools.pairwise(words)
    return float(sum(int(value) for word, value in pairs if word == key and value.isdigit()))

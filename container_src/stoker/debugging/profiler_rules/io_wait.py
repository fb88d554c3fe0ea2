"""Cores that wait for the disk, on any machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from stoker.bus.system_samples import IO_WAIT
from stoker.debugging.profiler_rules.profile import Profile
from stoker.debugging.profiler_rules.profiler_rule import ProfilerRule
from stoker.debugging.rule import Finding, parameter


class IOWait(ProfilerRule):
    """Cores wait for the disk or the network. An extension of Stoker.

    Fires when in more than `threshold` percent of the snapshots a core waits for I/O for more
    than `io_threshold` percent of the time.

    What usually helps: prefetching, or fewer and larger files in a binary format.
    """

    is_extension: ClassVar[bool] = True
    advice: ClassVar[str] = "prefetching, or fewer and larger files in a binary format"
    quick: ClassVar[Mapping[str, str]] = {"patience": "20"}

    threshold: float = parameter(20, "percent of the snapshots", minimum=0, maximum=100)
    io_threshold: float = parameter(50, "above it a core waits for I/O", minimum=0, maximum=100)
    patience: int = parameter(1000, "snapshots that it waits for", minimum=0)

    def look(self, profile: Profile) -> Finding | None:
        self.datapoints, self.violations, self.details = 0, 0, {}
        waiting = 0
        for node in profile.nodes:
            times, rows = profile.snapshots(node, IO_WAIT)
            if not len(times):
                continue
            self.datapoints += len(times)
            count = int((rows > self.io_threshold).any(axis=1).sum())
            self.details[node] = {"waiting": count, "snapshots": len(times)}
            waiting += count
        self.violations = waiting
        if not self.datapoints:
            self.lacking = "no I/O wait was measured"
            return None
        share = 100 * waiting / self.datapoints
        if self._wait_for(self.patience) or share <= self.threshold:
            return None
        return Finding(
            message=f"in {share:.0f} % of {self.datapoints} snapshots a core waited for I/O "
            f"(limit {self.threshold:g} %)",
            values={"percent": share, "threshold": self.threshold},
            hint=self.advice,
        )

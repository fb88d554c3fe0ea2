"""The number of loader workers against that of cores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from stoker.bus.step_records import StepFacts
from stoker.debugging.lazy_numpy import np
from stoker.debugging.profiler_rules.profile import Profile
from stoker.debugging.profiler_rules.profiler_rule import ProfilerRule, make_histogram
from stoker.debugging.rule import Finding, parameter

if TYPE_CHECKING:
    from stoker.debugging.profiler_rules.profile import Floats


class Dataloader(ProfilerRule):
    """There are far fewer or far more loader workers than cores.

    Fires when the processes that load data (the workers of all ranks of a host, or the ranks
    themselves without workers) are fewer than `min_threshold` percent or more than
    `max_threshold` percent of the container's cores.

    What usually helps: about one worker per core that is left over by the training.
    """

    advice: ClassVar[str] = "about one loader worker for each core that the training leaves over"
    quick: ClassVar[Mapping[str, str]] = {"patience": "1"}

    min_threshold: float = parameter(70, "percent of the cores", minimum=0)
    max_threshold: float = parameter(200, "percent of the cores", minimum=0)
    patience: int = parameter(10, "steps that it waits for", minimum=0)

    def look(self, profile: Profile) -> Finding | None:
        waits = _waits(profile)
        self.datapoints, self.violations, self.details = len(waits), 0, {}
        found: list[Finding] = []
        is_known = False
        for node in sorted({facts.host for facts in profile.facts}):
            loaders = count_loaders(facts for facts in profile.facts if facts.host == node)
            cores = profile.cores(node)
            if loaders is None or not cores:
                continue
            is_known = True
            self.details = self._describe(profile, node, loaders, waits)
            if not cores * self.min_threshold <= 100 * loaders <= cores * self.max_threshold:
                found.append(self._make_finding(node, loaders, cores))
        self.violations = len(found)
        if not is_known:
            self.lacking = "no torch DataLoader was seen"
            return None
        return None if self._wait_for(self.patience, what="steps") or not found else found[0]

    def _make_finding(self, node: str, loaders: int, cores: float) -> Finding:
        return Finding(
            message=f"{loaders} loader processes for {cores:g} cores of {node}, expected "
            f"{cores * self.min_threshold / 100:.3g} to {cores * self.max_threshold / 100:.3g}",
            values={"loaders": loaders, "cores": cores},
            hint=self.advice,
        )

    def _describe(
        self, profile: Profile, node: str, loaders: int, waits: Floats
    ) -> dict[str, Any]:
        loader = next(
            (one for facts in profile.facts if facts.host == node for one in facts.loaders), {}
        )
        times: dict[str, Any] = {}
        if len(waits):
            p25, p50, p95 = (float(p) for p in np.percentile(waits, (25, 50, 95)))
            times = {"p25": p25, "p50": p50, "p95": p95, **make_histogram(waits)}
        return {
            "cores": profile.cores(node),
            "dataloaders": loaders,
            "pin_memory": loader.get("pin_memory"),
            "num_workers": loader.get("num_workers"),
            "prefetch": loader.get("prefetch_factor"),
            "dataloading_time": times,
        }


def count_loaders(processes: Iterable[StepFacts]) -> int | None:
    """The processes of a host that load training data; None if no loader is known."""
    counts = [
        max(1, max(int(loader.get("num_workers") or 0) for loader in facts.loaders))
        for facts in processes
        if facts.loaders
    ]
    return sum(counts) if counts else None


def _waits(profile: Profile) -> Floats:
    found = [one.part("data_wait") / one.counts for one in profile.steps_of("TRAIN")]
    return np.concatenate(found) if found else np.empty(0)

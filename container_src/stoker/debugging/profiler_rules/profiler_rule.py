"""A rule about time and machines: it looks at everything measured so far, again and again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from stoker.debugging.lazy_numpy import np
from stoker.debugging.need import Need
from stoker.debugging.profiler_rules.profile import Profile
from stoker.debugging.rule import Finding, Rule, parameter
from stoker.debugging.step_tensors import StepTensors

if TYPE_CHECKING:
    from stoker.debugging.profiler_rules.profile import Floats

QUICK_INTERVAL_US = "5000000"


class ProfilerRule(Rule):
    """Looks at a profile instead of tensors. Subclass it and write `look`.

    `look` gets all that was measured up to a moment, every `scan_interval_us`, and leaves what
    it saw in `details`, in the service's shape.
    """

    is_extension: ClassVar[bool] = False
    """Ours, not the service's."""
    advice: ClassVar[str] = ""
    """What usually helps, for the report."""
    quick: ClassVar[Mapping[str, str]] = {}
    """The settings of `preset="quick"`; the interval is the same for all."""

    scan_interval_us: int = parameter(
        60_000_000, "time between two looks at what was measured, in microseconds", minimum=1
    )

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(settings)
        self.details: dict[str, Any] = {}
        self.datapoints = 0
        """How many snapshots or steps it has looked at."""
        self.triggered = 0
        """In how many of its looks the condition was met."""
        self.violations = 0
        self.lacking = ""
        """Why the latest look found nothing that could be evaluated; empty if it did."""

    @classmethod
    def quicken(cls, settings: Mapping[str, str]) -> dict[str, str]:
        """The settings in a short job: a verdict from 20 snapshots or steps on."""
        return {"scan_interval_us": QUICK_INTERVAL_US, **cls.quick, **settings}

    def needs(self) -> Sequence[Need]:
        return []

    def least_steps(self) -> int:
        return 0

    def check(self, step: int, tensors: StepTensors) -> Finding | None:
        return None

    def look(self, profile: Profile) -> Finding | None:
        """Looks at everything measured so far; a Finding means that the condition is met."""
        raise NotImplementedError(f"{type(self).__name__} has no look")

    def scan(self, profile: Profile, *, is_last: bool = False) -> Finding | None:
        """Looks, and counts. Args: is_last: nothing more will be measured."""
        self.lacking = ""
        finding = self.look(profile)
        if finding is not None:
            self.triggered += 1
        return finding

    def report(self) -> dict[str, Any]:
        """`<Rule>.json`, as the service writes it."""
        names = [name for name in self.parameters if name != "scan_interval_us"]
        return {
            "RuleTriggered": self.triggered,
            "Violations": self.violations,
            "Details": self.details,
            "Datapoints": self.datapoints,
            "RuleParameters": "\n".join(f"{name}:{getattr(self, name)}" for name in names),
        }

    def reports(self) -> dict[str, dict[str, Any]]:
        """Rule → its report."""
        return {type(self).__name__: self.report()}

    def _wait_for(self, patience: int, *, what: str = "snapshots") -> bool:
        """Whether there are not enough datapoints yet; notes how many are missing."""
        if self.datapoints > patience:
            return False
        self.lacking = (
            f"saw {self.datapoints} of the more than {patience} {what} that it needs; for a short "
            'job use preset="quick", a smaller patience, or a shorter interval'
        )
        return True


def percentile(values: Floats, share: float) -> float:
    return float(np.percentile(values, share))


def make_box(values: Floats) -> dict[str, float]:
    """What a box plot needs, in the service's names."""
    p25, p50, p75, p95 = (float(p) for p in np.percentile(values, (25, 50, 75, 95)))
    reach = 1.5 * (p75 - p25)
    return {
        "p25": p25,
        "p50": p50,
        "p75": p75,
        "p95": p95,
        "upper": min(p75 + reach, float(values.max())),
        "lower": max(p25 - reach, float(values.min())),
    }


def make_statistics(values: Floats) -> dict[str, float]:
    """max, p99, p95, p50 and min; negative ones as 0."""
    if not len(values):
        return {}
    p99, p95, p50 = np.percentile(values, (99, 95, 50))
    found = {"max": values.max(), "p99": p99, "p95": p95, "p50": p50, "min": values.min()}
    return {name: round(max(0.0, float(value)), 2) for name, value in found.items()}


def make_histogram(values: Floats, bins: int = 100) -> dict[str, list[float]]:
    counts, edges = np.histogram(values, bins=bins)
    return {"probs": counts.astype(float).tolist(), "binedges": edges.tolist()}

"""Steps that took much longer than the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from stoker.debugging.lazy_numpy import np
from stoker.debugging.profiler_rules.aggregates import aggregate
from stoker.debugging.profiler_rules.profile import Profile, StepSeries
from stoker.debugging.profiler_rules.profiler_rule import (
    ProfilerRule,
    make_histogram,
    make_statistics,
)
from stoker.debugging.rule import Finding, parameter

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEAST_STEPS = 100
_MOST_SPANS = 200
_MOST_NUMBERS = 10_000


class StepOutlier(ProfilerRule):
    """Some steps take much longer than the others.

    Fires when more than `n_outliers` steps of a process took longer than the mean plus `stddev`
    standard deviations; it needs more than `least_steps` steps.

    What usually helps: look at what the machine did at these moments (the report shows it):
    checkpoints, a loader that starts again, another process.
    """

    advice: ClassVar[str] = "look at what else happened at these steps; the report shows it"
    quick: ClassVar[Mapping[str, str]] = {"patience": "20", "n_outliers": "1"}

    stddev: float = parameter(3, "standard deviations above the mean", minimum=0)
    mode: str | None = parameter(
        None, "TRAIN or EVAL; both if it is not set", choices=("TRAIN", "EVAL", "None")
    )
    n_outliers: int = parameter(10, "fires when there are more of them", minimum=0)
    patience: int = parameter(LEAST_STEPS, "steps that it waits for", minimum=0)

    def look(self, profile: Profile) -> Finding | None:
        self.datapoints, self.violations, self.details = 0, 0, {"step_details": {}}
        fired: list[tuple[int, StepSeries, NDArray[np.bool_]]] = []
        modes = [self.mode] if self.mode in ("TRAIN", "EVAL") else ["TRAIN", "EVAL"]
        for one in (one for mode in modes for one in profile.steps_of(mode)):
            # The first step compiles, allocates and fills caches: it is explained elsewhere.
            usual = one.take(slice(1, None))
            self.datapoints = max(self.datapoints, usual.steps)
            if usual.steps <= self.patience:
                continue
            is_outlier = self._find(usual)
            self._describe(usual, is_outlier)
            count = int(is_outlier.sum())
            self.violations += count
            if count > self.n_outliers:
                fired.append((count, usual, is_outlier))
        if self._wait_for(self.patience, what="steps") or not fired:
            return None
        return self._make_finding(profile, max(fired, key=lambda one: one[0]))

    def report(self) -> dict[str, Any]:
        """In the service's order: a reader by position finds `threshold` first."""
        shown = super().report()
        values = {"threshold": self.stddev, "mode": self.mode, "n_outliers": self.n_outliers}
        lines = [f"{name}:{value}" for name, value in {**values, "stddev": self.stddev}.items()]
        return {**shown, "RuleParameters": "\n".join(lines)}

    def _find(self, one: StepSeries) -> NDArray[np.bool_]:
        mean = float(np.average(one.each, weights=one.counts))
        spread = float(np.sqrt(np.average((one.each - mean) ** 2, weights=one.counts)))
        found: NDArray[np.bool_] = one.longest > mean + self.stddev * spread
        return found if spread > 0 else np.zeros(len(one), dtype=bool)

    def _describe(self, one: StepSeries, is_outlier: NDArray[np.bool_]) -> None:
        name = one.node if one.rank == 0 else one.name
        self.details["step_details"][f"{name}" if one.mode == "TRAIN" else f"{name} EVAL"] = {
            "step_stats": {"mean": float(one.each.mean()), **make_statistics(one.each)},
            "number_of_outliers": int(is_outlier.sum()),
            "phase": f"Step:ModeKeys.{one.mode}",
            "stddev": float(one.each.std()),
            **make_histogram(one.each[~is_outlier]),
            "step_numbers": one.numbers[is_outlier][:_MOST_NUMBERS].astype(int).tolist(),
        }

    def _make_finding(
        self, profile: Profile, worst: tuple[int, StepSeries, NDArray[np.bool_]]
    ) -> Finding:
        count, one, is_outlier = worst
        chosen = one.take(is_outlier)
        spans = list(zip(chosen.starts[:_MOST_SPANS], chosen.ends[:_MOST_SPANS], strict=True))
        self.details |= aggregate(profile, spans)
        median = float(np.median(one.each))
        lost = float((chosen.longest - median).sum())
        return Finding(
            message=f"{count} of {one.steps} {one.mode} steps of {one.name} took longer than the "
            f"mean + {self.stddev:g} standard deviations; together they cost {lost:.1f} s more "
            f"than usual ones of {median:.3g} s (limit {self.n_outliers} steps)",
            values={"outliers": count, "limit": self.n_outliers, "seconds": lost},
            hint=self.advice,
        )

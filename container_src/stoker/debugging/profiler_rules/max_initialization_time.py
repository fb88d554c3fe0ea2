"""The time before the first step."""

from __future__ import annotations

from typing import Any, ClassVar

from stoker.debugging.profiler_rules.profile import Profile
from stoker.debugging.profiler_rules.profiler_rule import ProfilerRule
from stoker.debugging.rule import Finding, parameter


class MaxInitializationTime(ProfilerRule):
    """The first step came late.

    Fires when it began more than `threshold` minutes after the job. Without any step measured, it
    says so instead of firing.

    What usually helps: stream the data instead of copying it first, and install packages in the
    image.
    """

    advice: ClassVar[str] = (
        "stream the data instead of copying it first, and install packages in the image"
    )

    threshold: float = parameter(20, "minutes", minimum=0)

    def look(self, profile: Profile) -> Finding | None:
        begins = [float(one.starts[0]) for one in profile.steps if len(one)]
        first, last = profile.first, profile.last
        self.details = {"job_start": first, "job_end": last, "step_num": self._bounds(profile)}
        self.datapoints = sum(one.steps for one in profile.steps)
        self.violations = 0
        if not begins or first is None:
            self.lacking = (
                "no step was measured, so it is not known when the training began; "
                "was the model built from torch.nn (steps of TensorFlow are not measured), "
                "and did it train a step?"
            )
            return None
        minutes = (min(begins) - first) / 60
        if minutes <= self.threshold:
            return None
        self.violations = 1
        return Finding(
            message=f"the first step began {minutes:.1f} minutes after the job "
            f"(limit {self.threshold:g})",
            values={"minutes": minutes, "threshold": self.threshold},
            hint=self.advice,
        )

    def _bounds(self, profile: Profile) -> dict[str, Any]:
        starts = [one.starts for one in profile.steps if len(one)]
        if not starts:
            return {"first": None, "last": None}
        return {
            "first": min(float(s[0]) for s in starts) * 1e6,
            "last": max(float(s[-1]) for s in starts) * 1e6,
        }

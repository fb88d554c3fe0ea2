"""Where the time of the training went, by operator and phase."""

from __future__ import annotations

from stoker.debugging.profiler_rules.aggregates import aggregate
from stoker.debugging.profiler_rules.profile import Profile
from stoker.debugging.profiler_rules.profiler_rule import ProfilerRule
from stoker.debugging.rule import Finding


class OverallFrameworkMetrics(ProfilerRule):
    """Shares of training, evaluation, forward, backward and operators. It never fires."""

    def look(self, profile: Profile) -> Finding | None:
        self.details = aggregate(profile, others=True)
        self.datapoints = sum(one.steps for one in profile.steps) + len(profile.events)
        if not self.datapoints:
            self.lacking = "no step and no operator was measured"
        return None

"""No step came for a long time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from stoker.debugging.need import Need
from stoker.debugging.rule import Finding, Rule, parameter
from stoker.debugging.step_tensors import StepTensors

SIGN_INTERVAL = 20
"""Every how many steps a sign of life is saved."""


class StalledTrainingRule(Rule):
    """No step came for a long time: training hangs, or waits for data or for another rank.

    Fires when nothing was saved for `threshold` seconds. A step counts when something of it is
    saved, and for this rule every 20th is: choose a threshold well above the time that 20 steps
    take, and the start of the job.

    It happens when a rank has died or taken another way and the others wait for it, when a data
    loader hangs, and when storage is slow.

    What usually helps: a time limit for collectives, fewer loader workers, data on a local disk.
    """

    threshold: int = parameter(1800, "seconds without a saved step that are too many", minimum=1)
    stop_training_on_fire: bool = parameter(
        False, "whether to stop the job, as the action StopTraining does"
    )
    training_job_name_prefix: str | None = parameter(
        None, "of the job to stop in the service; in the container it is this job"
    )

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(settings)
        self._last_step: int | None = None

    def needs(self) -> Sequence[Need]:
        # A cheap sign of life, whatever else is saved: every 500th step, as is usual, may well lie
        # half an hour apart. Not the losses: other rules compare those at their own pace.
        sign = Need(collection="model_output", of_model=True, reductions=("abs_max",))
        return [
            Need(collection="losses", is_optional=True),
            replace(sign, is_optional=True, save_interval=SIGN_INTERVAL),
        ]

    def least_steps(self) -> int:
        return 0

    def check(self, step: int, tensors: StepTensors) -> Finding | None:
        self._last_step = step
        return None

    def check_time(self, seconds_since_last_step: float) -> Finding | None:
        if seconds_since_last_step < self.threshold:
            return None
        last = "before the first" if self._last_step is None else f"after step {self._last_step}"
        return Finding(
            message=f"no step was saved for {seconds_since_last_step:.0f} s {last} "
            f"(limit {self.threshold} s)",
            values={
                "seconds_since_last_step": seconds_since_last_step,
                "threshold": self.threshold,
            },
            hint="look for a rank that waits in a collective, a stuck data loader or slow storage",
        )

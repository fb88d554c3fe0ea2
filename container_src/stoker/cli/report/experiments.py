"""Experiments on a job: what is tried, how long its steps then take, what that would save."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stoker.debugging.profiler_rules.profile import Profile
from stoker.machine.failures import UsageRefused
from stoker.report.figures.bill import Bill
from stoker.report.figures.headroom import find_batch
from stoker.report.figures.run import Run
from stoker.report.insights import Insight
from stoker.report.insights.data import predict_gain

VARIABLE = "STOKER_TRY"  # profiling.overrides reads it
NAMES = (
    *("workers", "prefetch", "pin_memory", "persistent_workers", "batch_size"),
    *("threads", "amp", "channels_last", "compile", "save_interval"),
)
LEAST_GAIN = 0.05
"""Less than that is noise, however quiet the machine."""

_NOT_REPEATED = (
    *("Tags", "DebugHookConfig", "DebugRuleConfigurations", "ProfilerRuleConfigurations"),
    *("CheckpointConfig", "EnableManagedSpotTraining", "RetryStrategy", "ExperimentConfig"),
)
_LONGEST_SECONDS = 1800


@dataclass(frozen=True, kw_only=True, slots=True)
class Experiment:
    """One change."""

    setting: str
    """As the variable has it: `workers=2`."""
    predicted: float | None = None
    """The part of a training step that it should save, as is measured: 0 to 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """How long steps took."""

    step_seconds: float
    batch_size: int

    @property
    def sample_seconds(self) -> float:
        """For one sample, where the batch is known; else for one step."""
        return self.step_seconds / max(1, self.batch_size)


def choose_experiments(
    text: str, run: Run, insights: Sequence[Insight], bill: Bill
) -> list[Experiment]:
    """What the user names, else what the report suggests.

    Raises:
        UsageRefused: a name is not known, or there is nothing to try.
    """
    predicted = {
        trial: min(1.0, one.saving_seconds / max(bill.step_seconds, 1e-9))
        for one in reversed(insights)
        for trial in one.trials
        if one.saving_seconds
    }
    suggested = [trial for one in insights for trial in one.trials]
    words = [word for word in text.split(",") if word] or list(dict.fromkeys(suggested))
    experiments = []
    for word in words:
        name, _, value = word.partition("=")
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=1)
            fix = f"did you mean {near[0]}?" if near else f"one of {', '.join(NAMES)}"
            raise UsageRefused(f"--try {name!r} is not a setting that can be tried", fix=fix)
        if value and not value.isdecimal():
            raise UsageRefused(f"--try {word!r} has no whole number", fix=f"such as {name}=4")
        for number in [value] if value else _values(name, run):
            setting = f"{name}={number}"
            gain = predict_gain(run, int(number)) if name == "workers" else None
            expected = gain if gain is not None else predicted.get(name)
            experiments.append(Experiment(setting=setting, predicted=expected))
    if not experiments:
        raise UsageRefused(
            "the report of this job suggests nothing that can be tried",
            fix="name what to try: --try workers,threads,batch_size",
        )
    return experiments


def _values(name: str, run: Run) -> list[str]:
    """The values that are worth a try, other than the job's own."""
    node = run.profile.nodes[0] if run.profile.nodes else ""
    ranks = max(1, len({facts.rank for facts in run.profile.facts if facts.host == node}))
    cores = max(1, int(run.profile.cores(node)) // ranks)
    loader: Mapping[str, Any] = next(
        (one for facts in run.profile.facts for one in facts.loaders), {}
    )
    batch = find_batch(run.profile, node) or 32
    values = {
        "workers": [cores, 2 * cores],
        "threads": [cores],
        "batch_size": [2 * batch, 8 * batch] if batch <= 16 else [2 * batch],
        "prefetch": [4],
        "save_interval": [10],
    }.get(name, [1])
    own = {"workers": loader.get("num_workers"), "prefetch": loader.get("prefetch_factor")}
    return [str(value) for value in values if value != own.get(name)]


def make_request(
    before: Mapping[str, Any], *, name: str, setting: str, steps: int
) -> dict[str, Any]:
    """The request of one experiment: the job again, shortened, with a profile."""
    request = {key: value for key, value in before.items() if key not in _NOT_REPEATED}
    words = " ".join(filter(None, (setting, f"steps={steps}")))
    environ = {**request.get("Environment", {}), VARIABLE: words, "STOKER_PROFILE": "auto"}
    environ = {key: value for key, value in environ.items() if not key.startswith("STOKER_RULES")}
    if setting.startswith("threads="):
        environ["OMP_NUM_THREADS"] = setting.partition("=")[2]
    stopping = request.get("StoppingCondition", {})
    longest = min(_LONGEST_SECONDS, stopping.get("MaxRuntimeInSeconds", _LONGEST_SECONDS))
    return {
        **request,
        "TrainingJobName": name,
        "Environment": environ,
        "ProfilerConfig": {"S3OutputPath": request["OutputDataConfig"]["S3OutputPath"]},
        "StoppingCondition": {"MaxRuntimeInSeconds": longest},
    }


def measure(profile: Profile) -> Measured | None:
    """The mean step without the first third: loaders fill their queues in it."""
    each = []
    for one in profile.steps_of("TRAIN"):
        skipped = max(2, len(one) // 3)
        each.append(one.each[skipped:])
    values = np.concatenate(each) if each else np.empty(0)
    if len(values) < 3:
        return None
    node = profile.steps_of("TRAIN")[0].node
    return Measured(step_seconds=float(values.mean()), batch_size=find_batch(profile, node))


def find_gain(baselines: Sequence[Measured], changed: Measured) -> tuple[float, float]:
    """The part of the time that is saved, and how much of it may be noise."""
    times = [one.sample_seconds for one in baselines]
    usual = float(np.mean(times))
    noise = (max(times) - min(times)) / usual if usual else 0.0
    return 1 - changed.sample_seconds / usual, max(LEAST_GAIN, noise)

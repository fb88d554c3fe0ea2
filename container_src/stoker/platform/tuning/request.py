"""CreateHyperParameterTuningJob as the rest of the platform sees it, and what it refuses."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stoker.platform.model import faults
from stoker.platform.model.faults import ApiFault
from stoker.platform.model.request import read_request
from stoker.platform.tuning.autotune import choose_ranges, choose_static
from stoker.platform.tuning.trial_request import OBJECTIVE_KEY, make_trial_request
from stoker.tuning.completion import CompletionCriteria
from stoker.tuning.hyperband import Hyperband, find_hyperband_mistakes, infer_max_resource
from stoker.tuning.search import find_strategy_mistakes
from stoker.tuning.space import SearchSpace, find_range_mistakes, read_space
from stoker.tuning.study import Goal, Strategy
from stoker.tuning.warm_start import WarmStart

MOST_TRIALS = 750  # these four: the service's limits
_MOST_RANDOM_TRIALS = 10_000
_MOST_PARALLEL = 100
_MOST_HYPERPARAMETERS = 100
_AUTOTUNE_TRIALS = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialDefinition:
    """One training job definition, with what is searched in it."""

    name: str
    """Empty if the tuning job has only one."""

    raw: Mapping[str, Any]
    space: SearchSpace
    goal: Goal
    metric: str
    static: Mapping[str, str]

    @property
    def can_resume(self) -> bool:
        """Whether a trial can continue from a checkpoint."""
        return "CheckpointConfig" in self.raw


@dataclass(frozen=True, kw_only=True, slots=True)
class TuningRequest:
    """One tuning job, as it was asked for."""

    name: str
    definitions: tuple[TrialDefinition, ...]
    strategy: Strategy
    seed: int
    parallel: int
    max_runtime_seconds: int | None
    early_stopping: bool
    hyperband: Hyperband | None
    criteria: CompletionCriteria
    parents: tuple[str, ...]
    warm_start: WarmStart | None


def read_tuning_request(raw: Mapping[str, Any]) -> TuningRequest:
    """Read a request that fits the service model.

    Raises:
        ApiFault: it breaks a rule between fields; all broken ones are listed.
    """
    mistakes = list(_find_shape_mistakes(raw))
    if not mistakes:
        mistakes = [m for d in _definitions(raw) for m in _find_definition_mistakes(raw, d)]
        mistakes += _find_limit_mistakes(raw)
    if not mistakes:
        mistakes += _find_search_mistakes(raw)
    if mistakes:
        raise _refuse(mistakes)
    _require_quotas(raw)
    request = parse_tuning_request(raw)
    for definition in request.definitions:
        # What a training job would be refused for, the tuning job is refused for.
        sample = definition.space.decode([0.0] * len(definition.space.parameters))
        read_request(make_trial_request(definition.raw, "trial", definition.metric, sample))
    return request


def parse_tuning_request(raw: Mapping[str, Any]) -> TuningRequest:
    """Read a request that was accepted before."""
    config = raw["HyperParameterTuningJobConfig"]
    limits = config["ResourceLimits"]
    completion = config.get("TuningJobCompletionCriteria", {})
    strategy = Strategy(config["Strategy"])
    is_auto = _is_autotuned(raw)
    definitions = tuple(_parse_definition(raw, definition) for definition in _definitions(raw))
    warm = raw.get("WarmStartConfig", {})
    converge = completion.get("ConvergenceDetected", {}).get("CompleteOnConvergence")
    return TuningRequest(
        name=raw["HyperParameterTuningJobName"],
        definitions=definitions,
        strategy=strategy,
        # Without a seed, the name decides: another tuning job searches elsewhere.
        seed=config.get("RandomSeed", zlib.crc32(raw["HyperParameterTuningJobName"].encode())),
        parallel=limits["MaxParallelTrainingJobs"],
        max_runtime_seconds=limits.get("MaxRuntimeInSeconds"),
        early_stopping=config.get("TrainingJobEarlyStoppingType", "Off") == "Auto"
        or (is_auto and strategy is not Strategy.HYPERBAND),
        hyperband=_parse_hyperband(raw) if strategy is Strategy.HYPERBAND else None,
        criteria=CompletionCriteria(
            max_trials=_count_trials(raw, definitions),
            target=completion.get("TargetObjectiveMetricValue"),
            max_not_improving=completion.get("BestObjectiveNotImproving", {}).get(
                "MaxNumberOfTrainingJobsNotImproving"
            ),
            on_convergence=converge == "Enabled" or (is_auto and converge is None),
        ),
        parents=tuple(
            parent["HyperParameterTuningJobName"]
            for parent in warm.get("ParentHyperParameterTuningJobs", ())
        ),
        warm_start=WarmStart(warm["WarmStartType"]) if warm else None,
    )


def _definitions(raw: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    several = raw.get("TrainingJobDefinitions")
    definitions = list(several) if several else [raw["TrainingJobDefinition"]]
    if not _is_autotuned(raw):
        return definitions
    shared = raw["HyperParameterTuningJobConfig"].get("ParameterRanges", {})
    return [
        {
            **definition,
            "StaticHyperParameters": {
                **definition.get("StaticHyperParameters", {}),
                **choose_static(definition.get("HyperParameterRanges") or shared),
            },
        }
        for definition in definitions
    ]


def _objective(raw: Mapping[str, Any], definition: Mapping[str, Any]) -> Mapping[str, str]:
    config = raw["HyperParameterTuningJobConfig"]
    found: Mapping[str, str] = definition.get("TuningObjective") or config.get(
        "HyperParameterTuningJobObjective", {}
    )
    return found


def _ranges(raw: Mapping[str, Any], definition: Mapping[str, Any]) -> Mapping[str, Any]:
    config = raw["HyperParameterTuningJobConfig"]
    ranges = definition.get("HyperParameterRanges") or config.get("ParameterRanges", {})
    return choose_ranges(ranges) if _is_autotuned(raw) else ranges


def _is_autotuned(raw: Mapping[str, Any]) -> bool:
    return bool(raw.get("Autotune", {}).get("Mode") == "Enabled")


def _parse_definition(raw: Mapping[str, Any], definition: Mapping[str, Any]) -> TrialDefinition:
    objective = _objective(raw, definition)
    return TrialDefinition(
        name=definition.get("DefinitionName", ""),
        raw=definition,
        space=read_space(_ranges(raw, definition)),
        goal=Goal(objective["Type"]),
        metric=objective["MetricName"],
        static=definition.get("StaticHyperParameters", {}),
    )


def _parse_hyperband(raw: Mapping[str, Any]) -> Hyperband:
    low, high = _resources(raw)
    return Hyperband(min_resource=low or 1, max_resource=high or 1)


def _resources(raw: Mapping[str, Any]) -> tuple[int | None, int | None]:
    strategy = raw["HyperParameterTuningJobConfig"].get("StrategyConfig", {})
    given = strategy.get("HyperbandStrategyConfig", {})
    named = (infer_max_resource(d.get("StaticHyperParameters", {})) for d in _definitions(raw))
    inferred = next((epochs for epochs in named if epochs is not None), None)
    return given.get("MinResource"), given.get("MaxResource", inferred)


def _count_trials(raw: Mapping[str, Any], definitions: tuple[TrialDefinition, ...]) -> int | None:
    config = raw["HyperParameterTuningJobConfig"]
    given: int | None = config["ResourceLimits"].get("MaxNumberOfTrainingJobs")
    if given is None and config["Strategy"] == Strategy.GRID:
        return sum(definition.space.combinations or 0 for definition in definitions)
    return _AUTOTUNE_TRIALS if given is None and _is_autotuned(raw) else given


def _find_shape_mistakes(raw: Mapping[str, Any]) -> Iterator[str]:
    config = raw["HyperParameterTuningJobConfig"]
    several = raw.get("TrainingJobDefinitions")
    if bool(several) == ("TrainingJobDefinition" in raw):
        yield "Specify exactly one of TrainingJobDefinition and TrainingJobDefinitions."
        return
    if several:
        names = [definition.get("DefinitionName", "") for definition in several]
        if not all(names):
            yield "Each of TrainingJobDefinitions must have a DefinitionName."
        for name in sorted({n for n in names if n and names.count(n) > 1}):
            yield f"TrainingJobDefinitions must have unique names, but '{name}' is repeated."
        for field in ("HyperParameterTuningJobObjective", "ParameterRanges"):
            if config.get(field):
                yield f"{field} can't be specified with TrainingJobDefinitions. Give each its own."
    for definition in _definitions(raw):
        if not _objective(raw, definition):
            yield (
                "An objective is required: HyperParameterTuningJobObjective, or with several "
                "training job definitions the TuningObjective of each."
            )
        if "AlgorithmName" in definition["AlgorithmSpecification"]:
            yield "AlgorithmName is not supported by the local platform. Pass TrainingImage."
        forms = {"ResourceConfig", "HyperParameterTuningResourceConfig"} & definition.keys()
        if len(forms) != 1:
            yield (
                "A training job definition must have exactly one of ResourceConfig and "
                "HyperParameterTuningResourceConfig."
            )
    yield from _find_parent_name_mistakes(raw)


def _find_parent_name_mistakes(raw: Mapping[str, Any]) -> Iterator[str]:
    parents = raw.get("WarmStartConfig", {}).get("ParentHyperParameterTuningJobs", ())
    names = [parent.get("HyperParameterTuningJobName", "") for parent in parents]
    if not all(names):
        yield "Each of ParentHyperParameterTuningJobs must have a HyperParameterTuningJobName."
    for name in sorted({n for n in names if n and names.count(n) > 1}):
        yield f"ParentHyperParameterTuningJobs names '{name}' more than once. Keep one of them."


def _find_definition_mistakes(
    raw: Mapping[str, Any], definition: Mapping[str, Any]
) -> Iterator[str]:
    metrics = definition["AlgorithmSpecification"].get("MetricDefinitions", ())
    metric = _objective(raw, definition)["MetricName"]
    if metric not in [each["Name"] for each in metrics]:
        named = ", ".join(each["Name"] for each in metrics) or "none"
        yield (
            "A metric is required for this hyperparameter tuning job objective. Provide a metric "
            f"in the metric definitions. (The objective is '{metric}'; they have: {named}.)"
        )
    for each in metrics:
        yield from _find_regex_mistakes(each["Name"], each["Regex"])
    ranges = _ranges(raw, definition)
    if ranges.get("AutoParameters"):  # with Autotune, ranges were chosen for them
        yield "AutoParameters can be specified only with the Autotune mode Enabled."
    yield from find_range_mistakes(ranges)
    tuned = {row["Name"] for rows in ranges.values() for row in rows}
    static = definition.get("StaticHyperParameters", {})
    for name in sorted(tuned & static.keys()):
        yield f"Hyperparameter '{name}' is both static and tunable. Remove one of them."
    count = len(tuned | static.keys() | {OBJECTIVE_KEY})
    if count > _MOST_HYPERPARAMETERS:
        yield (
            f"A training job may have {_MOST_HYPERPARAMETERS} hyperparameters, but these are "
            f"{count}, with {OBJECTIVE_KEY}, which the tuning job adds."
        )


def _find_regex_mistakes(name: str, regex: str) -> Iterator[str]:
    try:
        if re.compile(regex).groups < 1:
            yield (
                f"The regex of metric '{name}' has no group: put parentheses around the number, "
                f"as in 'loss=([0-9.]+)'. It is '{regex}'."
            )
    except (re.error, RecursionError, OverflowError) as error:
        yield f"The regex of metric '{name}' is invalid: {error}."


def _find_limit_mistakes(raw: Mapping[str, Any]) -> Iterator[str]:
    config = raw["HyperParameterTuningJobConfig"]
    limits = config["ResourceLimits"]
    is_hyperband = config["Strategy"] == Strategy.HYPERBAND
    ends = limits.keys() & {"MaxNumberOfTrainingJobs", "MaxRuntimeInSeconds"}
    ends |= config.get("TuningJobCompletionCriteria", {}).keys()
    if not ends and config["Strategy"] != Strategy.GRID and not _is_autotuned(raw):
        yield (
            "A tuning job must have an end: give ResourceLimits its MaxNumberOfTrainingJobs or "
            "MaxRuntimeInSeconds, or pass TuningJobCompletionCriteria."
        )
    target = config.get("TuningJobCompletionCriteria", {}).get("TargetObjectiveMetricValue", 0.0)
    if not math.isfinite(target):
        yield (
            f"TargetObjectiveMetricValue must be a finite number, but is {target}. Leave it out, "
            "and the search has no target."
        )
    if is_hyperband:
        yield from find_hyperband_mistakes(*_resources(raw))
        if config.get("TrainingJobEarlyStoppingType", "Off") != "Off":
            yield (
                "TrainingJobEarlyStoppingType must be Off with the strategy Hyperband, which "
                "stops training jobs itself."
            )
    elif "StrategyConfig" in config:
        yield "StrategyConfig can be specified only with the strategy Hyperband."
    if "WarmStartConfig" in raw and config["Strategy"] not in ("Bayesian", "Random"):
        yield "WarmStartConfig can be specified only with the strategies Bayesian and Random."


def _find_search_mistakes(raw: Mapping[str, Any]) -> Iterator[str]:
    config = raw["HyperParameterTuningJobConfig"]
    given = config["ResourceLimits"].get("MaxNumberOfTrainingJobs")
    definitions = [_parse_definition(raw, definition) for definition in _definitions(raw)]
    for definition in definitions:
        # Several definitions share the trials: only one has to have enough combinations.
        most = given if len(definitions) == 1 else None
        yield from find_strategy_mistakes(definition.space, Strategy(config["Strategy"]), most)


def _require_quotas(raw: Mapping[str, Any]) -> None:
    config = raw["HyperParameterTuningJobConfig"]
    limits = config["ResourceLimits"]
    most = _MOST_RANDOM_TRIALS if config["Strategy"] == Strategy.RANDOM else MOST_TRIALS
    for field, quota in (
        ("MaxNumberOfTrainingJobs", most),
        ("MaxParallelTrainingJobs", _MOST_PARALLEL),
    ):
        if limits.get(field, 1) > quota:
            raise faults.limit_exceeded(
                f"The account-level service limit '{field}' of a tuning job is {quota}, but "
                f"{limits[field]} were requested. Request fewer."
            )


def _refuse(mistakes: list[str]) -> ApiFault:
    listed = "; ".join(dict.fromkeys(mistakes))
    count = len(dict.fromkeys(mistakes))
    return faults.validation(
        listed if count == 1 else f"{count} validation errors detected: {listed}"
    )

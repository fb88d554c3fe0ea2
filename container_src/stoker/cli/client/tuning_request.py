"""From what the user wants searched to a CreateHyperParameterTuningJob request; pure."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from stoker.bus.metric_line import make_definitions
from stoker.cli.client.submission import Submission, TrainingSpec, make_submission
from stoker.machine.failures import UsageRefused
from stoker.platform.model.faults import ApiFault
from stoker.platform.model.root import DEFAULT_BUCKET
from stoker.platform.tuning.request import read_tuning_request

_TRIALS = 10
_LONGEST_NAME = 32  # the service's limit
# What CreateTrainingJob has, and the definition of a search's training jobs has not.
_NOT_OF_TRIALS = (
    *("TrainingJobName", "HyperParameters", "Tags"),
    *("DebugHookConfig", "ProfilerConfig", "TensorBoardOutputConfig"),
)
SCRIPT_TAG = "stoker:script"
_TAG_VALUE = re.compile(r"[\w\s.:/=+@-]{1,256}")  # as AddTags has it
_SCALINGS = {
    "": "Auto",
    "linear": "Linear",
    "log": "Logarithmic",
    "reverse-log": "ReverseLogarithmic",
}


def make_tuning_submission(args: argparse.Namespace, spec: TrainingSpec) -> Submission:
    """What `stoker tune` would send.

    Raises:
        UsageRefused: the search cannot work; all mistakes are named.
    """
    name = make_tuning_name(args.name, args.script.stem)
    goal, metric, definition = _read_objective(args, spec)
    metrics = {**spec.metrics, **({metric: definition} if definition else {})}
    submission = make_submission(replace(spec, name=name, metrics=metrics))
    training = submission.request
    request: dict[str, Any] = {
        "HyperParameterTuningJobName": name,
        "HyperParameterTuningJobConfig": {
            "Strategy": args.strategy.capitalize(),
            **_strategy_part(args),
            "HyperParameterTuningJobObjective": {"Type": goal, "MetricName": metric},
            "ResourceLimits": _limits(args),
            "ParameterRanges": _ranges(args),
            "TrainingJobEarlyStoppingType": "Auto" if args.early_stop else "Off",
            **_completion_part(args),
            **({"RandomSeed": args.seed} if args.seed is not None else {}),
        },
        "TrainingJobDefinition": {
            "StaticHyperParameters": training["HyperParameters"],
            **{k: v for k, v in training.items() if k not in _NOT_OF_TRIALS},
            **_checkpoint_part(args, name),
        },
        **_tags_part(training, args.script.absolute()),
    }
    try:
        read_tuning_request(request)
    except ApiFault as fault:
        raise UsageRefused(fault.message, fix="see stoker tune --help") from fault
    return replace(submission, request=request)


def make_tuning_name(asked: str | None, stem: str) -> str:
    """The name asked for, or one of the script and the time; a tuning job's may have 32."""
    plain = re.sub(r"[^A-Za-z0-9]+", "-", stem).strip("-")[:12].strip("-") or "search"
    name = asked or f"{plain}-{time.strftime('%y%m%d-%H%M%S')}"
    if not re.fullmatch(r"[A-Za-z0-9](-*[A-Za-z0-9])*", name) or len(name) > _LONGEST_NAME:
        raise UsageRefused(
            f"{name!r} is not a valid name of a tuning job",
            fix=f"use up to {_LONGEST_NAME} letters, digits and dashes",
        )
    return name


def _read_objective(args: argparse.Namespace, spec: TrainingSpec) -> tuple[str, str, str]:
    """Maximize or Minimize, the metric, and its regular expression unless --metric has it."""
    if (args.maximize is None) == (args.minimize is None):
        raise UsageRefused(
            "a search needs one objective",
            fix="pass --maximize NAME or --minimize NAME; NAME=REGEX if it is not of job.log",
        )
    goal = "Maximize" if args.maximize is not None else "Minimize"
    name, _, regex = (args.maximize or args.minimize or "").partition("=")
    if not regex and name not in spec.metrics:
        regex = make_definitions([name])[0]["Regex"]
    return goal, name, regex


def _limits(args: argparse.Namespace) -> dict[str, int]:
    trials = args.trials
    if trials is None and args.strategy != "grid":  # a grid has as many as combinations
        trials = _TRIALS
    limits = {"MaxParallelTrainingJobs": args.parallel}
    if trials is not None:
        limits["MaxNumberOfTrainingJobs"] = trials
    for option, number, least in (
        ("--trials", trials, 1),
        ("--parallel", args.parallel, 1),
        ("--seed", args.seed, 0),
    ):
        if number is not None and number < least:
            raise UsageRefused(f"{option} {number}", fix=f"at least {least}")
    return limits


def _strategy_part(args: argparse.Namespace) -> dict[str, Any]:
    given = {"MinResource": args.min_epochs, "MaxResource": args.max_epochs}
    resources = {key: number for key, number in given.items() if number is not None}
    if not resources:
        return {}
    return {"StrategyConfig": {"HyperbandStrategyConfig": resources}}


def _completion_part(args: argparse.Namespace) -> dict[str, Any]:
    if args.target is None:
        return {}
    return {"TuningJobCompletionCriteria": {"TargetObjectiveMetricValue": args.target}}


def _checkpoint_part(args: argparse.Namespace, name: str) -> dict[str, Any]:
    """With checkpoints, Hyperband pauses trials and resumes the best of them."""
    if args.strategy != "hyperband" or args.no_resume:
        return {}
    return {"CheckpointConfig": {"S3Uri": f"s3://{DEFAULT_BUCKET}/{name}/checkpoints"}}


def _tags_part(training: Mapping[str, Any], script: Path) -> dict[str, Any]:
    """The tags asked for, and where the script is: the winner's command names it."""
    tags = [*training.get("Tags", ())]
    # A path with other letters gets no tag: the winner's command then names the program alone.
    if _TAG_VALUE.fullmatch(str(script)):
        tags.append({"Key": SCRIPT_TAG, "Value": str(script)})
    return {"Tags": tags} if tags else {}


def _ranges(args: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    ranges: dict[str, list[dict[str, Any]]] = {
        "ContinuousParameterRanges": [],
        "IntegerParameterRanges": [],
        "CategoricalParameterRanges": [],
    }
    for text in args.range:
        kind, row = _read_range(text)
        ranges[kind].append(row)
    for text in args.choice:
        name, is_pair, values = text.partition("=")
        if not is_pair or not name:
            raise UsageRefused(f"--choice {text} is not NAME=A,B", fix="--choice opt=sgd,adam")
        row = {"Name": name, "Values": [value.strip() for value in values.split(",")]}
        ranges["CategoricalParameterRanges"].append(row)
    return ranges


def _read_range(text: str) -> tuple[str, dict[str, Any]]:
    name, _, rest = text.partition("=")
    bounds, _, scaling = rest.partition(":")
    low, dots, high = bounds.partition("..")
    if not (name and dots and low and high) or scaling not in _SCALINGS:
        raise UsageRefused(
            f"--range {text} is not NAME=LOW..HIGH[:SCALING]",
            fix="--range lr=1e-5..1e-1:log, --range layers=1..4; scalings: "
            + ", ".join(filter(None, _SCALINGS)),
        )
    # `1..4` is whole numbers, `1.0..4` is not: the spelling decides.
    is_whole = all(re.fullmatch(r"[-+]?\d+", bound) for bound in (low, high))
    kind = "IntegerParameterRanges" if is_whole else "ContinuousParameterRanges"
    row = {"Name": name, "MinValue": low, "MaxValue": high, "ScalingType": _SCALINGS[scaling]}
    return kind, row

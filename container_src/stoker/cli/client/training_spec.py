"""What `stoker train` was asked for, checked as a whole before anything is made."""

from __future__ import annotations

import argparse
import re
import time
from pathlib import Path

from stoker.cli.client.submission import TrainingSpec
from stoker.contract.channels import is_channel_name
from stoker.contract.code import CODE_CHANNEL
from stoker.machine.failures import UsageRefused

_NAME = re.compile(r"[A-Za-z0-9](?:-?[A-Za-z0-9]){0,62}")  # as CreateTrainingJob has it
_LONGEST_STEM = 40


def make_spec(args: argparse.Namespace) -> TrainingSpec:
    """Check what the user said.

    Raises:
        UsageRefused: a file or folder is missing, a pair is not NAME=VALUE, a name is no name.
    """
    source_dir = (args.source_dir or args.script.parent).absolute()
    script = args.script.absolute()
    if not script.is_file() or source_dir not in script.parents:
        raise UsageRefused(
            f"{args.script} is no file in {source_dir}", fix="name a script and its --source-dir"
        )
    if args.instances < 1:
        raise UsageRefused(f"--instances {args.instances}", fix="at least 1")
    return TrainingSpec(
        name=_job_name(args.name, script),
        image=args.image,
        source_dir=source_dir,
        entry_point=str(script.relative_to(source_dir)),
        channels=_channels(args.channel),
        params=dict(_pairs(args.param, "--param")),
        metrics=_metrics(args.metric),
        environ=dict(_pairs(args.env, "--env")),
        instances=args.instances,
        spot=args.spot,
    )


def _channels(texts: list[str]) -> dict[str, Path | str]:
    channels: dict[str, Path | str] = {}
    for name, text in _pairs(texts, "--channel"):
        if not is_channel_name(name):
            raise UsageRefused(
                f"{name!r} is no channel name", fix="use 1 to 64 letters, digits, '.', '-' or '_'"
            )
        if name == CODE_CHANNEL:
            raise UsageRefused(
                f"the channel {CODE_CHANNEL!r} carries your script", fix="choose another name"
            )
        place = text if text.startswith("s3://") else Path(text).absolute()
        if isinstance(place, Path) and not place.is_dir():
            raise UsageRefused(
                f"channel {name}: {place} is no folder",
                fix="pass --channel NAME=FOLDER or --channel NAME=s3://bucket/prefix",
            )
        if isinstance(place, Path) and not any(place.iterdir()):
            raise UsageRefused(f"channel {name}: {place} is empty", fix="put a file into it")
        channels[name] = place
    return channels


def _metrics(texts: list[str]) -> dict[str, str]:
    metrics = dict(_pairs(texts, "--metric"))
    for name, regex in metrics.items():
        try:
            groups = re.compile(regex).groups
        except re.error as error:
            raise UsageRefused(f"metric {name}: {regex}: {error}", fix="mend the regex") from error
        if groups < 1:
            raise UsageRefused(
                f"metric {name}: {regex} has no group",
                fix="put brackets around the number: 'loss=([0-9.]+)'",
            )
    return metrics


def _job_name(asked: str | None, script: Path) -> str:
    stem = re.sub(r"[^A-Za-z0-9]+", "-", script.stem)[:_LONGEST_STEM].strip("-") or "job"
    name = asked or f"{stem}-{time.strftime('%Y%m%d-%H%M%S')}"
    if not _NAME.fullmatch(name):
        raise UsageRefused(
            f"{name!r} is no name for a job", fix="use up to 63 letters, digits and dashes"
        )
    return name


def _pairs(texts: list[str], option: str) -> list[tuple[str, str]]:
    for text in texts:
        if "=" not in text:
            raise UsageRefused(f"{option} {text} is no NAME=VALUE", fix=f"{option} name=value")
    return [(name, value) for name, _, value in (text.partition("=") for text in texts)]

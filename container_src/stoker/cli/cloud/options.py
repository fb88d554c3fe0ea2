"""The options of `--on sagemaker` as settings; with the SDKs' config.yaml and stoker.toml."""

from __future__ import annotations

import argparse
import configparser
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from stoker.cloud.sdk_config import read_sdk_config
from stoker.cloud.settings import CloudSettings, InstanceGroup, merge_sdk_config, require_sense
from stoker.machine.environment import read_environment
from stoker.machine.failures import UsageRefused
from stoker.machine.units import read_seconds

_GROUP = re.compile(r"(?P<name>[\w.-]+)=(?P<kind>ml\.[\w.-]+):(?P<count>[1-9]\d*)")


def read_settings(args: argparse.Namespace) -> CloudSettings:
    """What was asked for, completed by the SDKs' config.yaml.

    Raises:
        UsageRefused: an option or a file is not valid.
    """
    environ = read_environment()
    given = CloudSettings(
        region=args.region,
        role=args.role,
        output=args.output.rstrip("/") if args.output else None,
        subnets=tuple(args.subnet),
        security_groups=tuple(args.security_group),
        output_kms_key=args.kms_key,
        volume_kms_key=args.volume_kms_key,
        is_spot=bool(args.use_spot),
        max_wait_seconds=_seconds(args.max_wait),
        max_pending_seconds=_seconds(args.max_pending),
        groups=tuple(_read_group(text) for text in args.instance_group),
        preferred_types=tuple(t.strip() for t in args.prefer.split(",")) if args.prefer else (),
        training_plan=args.training_plan,
        is_debugged=args.remote_debug,
        queue=args.queue,
        priority=args.priority,
        share=args.share,
        repository=args.repository,
    )
    settings = merge_sdk_config(given, read_sdk_config(environ))
    require_sense(settings)
    return replace(settings, region=settings.region or read_region(environ))


def read_region(environ: Mapping[str, str]) -> str | None:
    """The region as AWS's tools find it, without loading any of them."""
    named = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    if named:
        return named
    profile = environ.get("AWS_PROFILE") or environ.get("AWS_DEFAULT_PROFILE") or "default"
    file = Path(environ.get("AWS_CONFIG_FILE") or Path.home() / ".aws/config").expanduser()
    parser = configparser.RawConfigParser()
    try:
        parser.read(file)
        section = profile if profile == "default" else f"profile {profile}"
        return parser.get(section, "region", fallback=None)
    except (configparser.Error, OSError, UnicodeDecodeError):
        return None  # boto3 will say what is wrong with it


def _seconds(text: str | None) -> int | None:
    return None if text is None else round(read_seconds(text))


def _read_group(text: str) -> InstanceGroup:
    found = _GROUP.fullmatch(text)
    if not found:
        raise UsageRefused(
            f"--instance-group {text} is not NAME=TYPE:COUNT",
            fix="--instance-group workers=ml.g5.2xlarge:4",
        )
    return InstanceGroup(
        name=found["name"], instance_type=found["kind"], count=int(found["count"])
    )

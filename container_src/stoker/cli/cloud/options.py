"""The options of `--on sagemaker` as settings; with the SDKs' config.yaml and stoker.toml."""

from __future__ import annotations

import argparse
import re
from dataclasses import replace

from stoker.cloud.sdk_config import read_sdk_config
from stoker.cloud.settings import CloudSettings, InstanceGroup, merge_sdk_config, require_sense
from stoker.machine.aws_settings import read_region
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
        preferred_types=tuple(filter(None, map(str.strip, (args.prefer or "").split(",")))),
        training_plan=args.training_plan,
        is_debugged=args.remote_debug,
        queue=args.queue,
        priority=args.priority,
        share=args.share,
        repository=args.repository,
    )
    settings = merge_sdk_config(given, read_sdk_config(environ))
    # Without botocore, which takes longer to load than all else of a dry run.
    settings = replace(settings, region=settings.region or read_region(environ))
    require_sense(settings)
    return settings


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

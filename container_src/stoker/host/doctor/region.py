"""Is an AWS region known? Both SDKs refuse to start without one."""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from pathlib import Path

from stoker.host.doctor.finding import Finding, Machine

_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")


def check(machine: Machine) -> Finding:
    """`stoker local env` sets one; without it local mode of SDK v2 needs it from elsewhere."""
    for name in _VARIABLES:
        if region := machine.environ.get(name):
            return Finding(check="region", level="ok", text=f"{region}, by {name}")
    if region := _profile_region(machine.environ):
        return Finding(check="region", level="ok", text=f"{region}, by the AWS profile")
    return Finding(
        check="region",
        level="warning",
        text="no AWS region is set: SDK v2 stops with 'Must setup local AWS configuration'",
        fix="eval $(stoker local env), or export AWS_DEFAULT_REGION=us-east-1",
    )


def _profile_region(environ: Mapping[str, str]) -> str | None:
    file = Path(environ.get("AWS_CONFIG_FILE") or Path.home() / ".aws/config")
    profile = environ.get("AWS_PROFILE") or "default"
    section = profile if profile == "default" else f"profile {profile}"
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read(file.expanduser())
        return parser.get(section, "region", fallback=None)
    except (configparser.Error, OSError, UnicodeDecodeError):
        return None  # the SDKs will say what is wrong with the file

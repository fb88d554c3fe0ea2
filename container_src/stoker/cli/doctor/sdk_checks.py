"""Checks of the Python packages and AWS settings that stock SageMaker code uses."""

from __future__ import annotations

import configparser
import importlib.util
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from stoker.cli.client.variables import find_conflicts, is_proxied
from stoker.cli.doctor.finding import Finding, Machine
from stoker.machine.certificates import find_broken, find_bundle

_MODULES = ("aiohttp", "boto3", "crc32c", "isal")


def check_packages(_machine: Machine) -> Finding:
    """They are an extra of the package: building and checking images works without them."""
    missing = [name for name in _MODULES if importlib.util.find_spec(name) is None]
    if missing:
        return Finding(
            check="packages",
            level="problem",
            text=f"the platform needs {', '.join(missing)}",
            fix="pip install 'stoker[host]'",
        )
    return Finding(check="packages", level="ok", text=", ".join(_MODULES))


def check_certificates(machine: Machine) -> Finding:
    """Behind a proxy that replaces certificates, containers need this machine's, too."""
    broken = find_broken(machine.environ)
    if broken:
        return Finding(
            check="certificates",
            level="problem",
            text=f"{' and '.join(broken)} name no file: pip and AWS clients fail",
            fix=f"unset {' '.join(broken)}, or name a file of certificates",
        )
    bundle = find_bundle(machine.environ)
    text = f"containers trust {bundle}, too" if bundle else "the usual ones"
    return Finding(check="certificates", level="ok", text=text)


_PACKAGES = ("sagemaker", "sagemaker-core", "sagemaker-train")


def check_sdks(_machine: Machine) -> Finding:
    """SDK v2 wants sagemaker-core < 2, v3 wants more; both own the package `sagemaker`."""
    versions = read_versions()
    return check_versions(versions)


def read_versions() -> dict[str, str]:
    """The packages that are installed."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def check_versions(versions: dict[str, str]) -> Finding:
    """Whether such an environment can work."""
    shown = ", ".join(f"{name} {version}" for name, version in versions.items())
    major = {name: int(version.split(".")[0]) for name, version in versions.items()}
    is_v2 = major.get("sagemaker") == 2
    if is_v2 and (major.get("sagemaker-core", 1) >= 2 or "sagemaker-train" in major):
        return Finding(
            check="SDKs",
            level="problem",
            text=f"both SDKs share this environment: {shown}",
            fix="make one environment each: pip install 'sagemaker<3' | pip install sagemaker",
        )
    return Finding(check="SDKs", level="ok", text=shown or "not installed here, and not needed")


_WANTED = {"AWS_EC2_METADATA_DISABLED": "true", "PYTHONUNBUFFERED": "1"}


def check_sdk_settings(machine: Machine) -> Finding:
    """Off EC2 the probing of the metadata address takes seconds on some networks."""
    unset = [name for name in _WANTED if not machine.environ.get(name)]
    if not unset:
        return Finding(check="SDK settings", level="ok", text="no probing, output unbuffered")
    return Finding(
        check="SDK settings",
        level="warning",
        text=f"not set: {', '.join(unset)}: slow starts off EC2, and logs that come at the end",
        fix="eval $(stoker local env), or export "
        + " ".join(f"{name}={_WANTED[name]}" for name in unset),
    )


_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")


def check_region(machine: Machine) -> Finding:
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
    # `%` is a plain character, as it is to botocore.
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read(file.expanduser())
        return parser.get(section, "region", fallback=None)
    except (configparser.Error, OSError, UnicodeDecodeError):
        return None  # the SDKs will say what is wrong with the file


def check_aws_variables(machine: Machine) -> Finding:
    """A variable of one service wins over AWS_ENDPOINT_URL; a proxy does not know loopback."""
    conflicts = find_conflicts(machine.environ)
    if conflicts:
        return Finding(
            check="AWS variables",
            level="warning",
            text=f"set here and in the platform's way: {', '.join(conflicts)}",
            fix="eval $(stoker local env) removes them from this shell",
        )
    if is_proxied(machine.environ):
        return Finding(
            check="AWS variables",
            level="warning",
            text="a proxy is set, and 127.0.0.1 is not in no_proxy",
            fix="eval $(stoker local env) adds it",
        )
    return Finding(check="AWS variables", level="ok", text="nothing is in the platform's way")

"""All checks, in the order in which they help."""

from __future__ import annotations

from collections.abc import Callable

from stoker.cli.doctor.docker_checks import (
    check_bridge,
    check_builder,
    check_compose,
    check_engine,
    check_image,
    check_leftovers,
    check_shm,
)
from stoker.cli.doctor.finding import Finding, Machine
from stoker.cli.doctor.platform_checks import check_disk, check_ports, check_refused_folders
from stoker.cli.doctor.sdk_checks import (
    check_aws_variables,
    check_certificates,
    check_packages,
    check_region,
    check_sdk_settings,
    check_sdks,
)

CHECKS: tuple[Callable[[Machine], Finding], ...] = (
    check_engine,
    check_builder,
    check_image,
    check_bridge,
    check_packages,
    check_certificates,
    check_ports,
    check_disk,
    check_shm,
    check_region,
    check_aws_variables,
    check_sdk_settings,
    check_sdks,
    check_compose,
    check_refused_folders,
    check_leftovers,
)


def examine(machine: Machine) -> list[Finding]:
    """Run every check; one that breaks is a finding, too."""
    return [_run(check, machine) for check in CHECKS]


def _run(check: Callable[[Machine], Finding], machine: Machine) -> Finding:
    try:
        return check(machine)
    except Exception as error:
        name = check.__name__.removeprefix("check_").replace("_", " ")
        return Finding(
            check=name,
            level="warning",
            text=f"could not be checked: {type(error).__name__}: {error}",
            fix="report it: this is an internal error",
        )

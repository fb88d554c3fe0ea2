"""All checks, in the order in which they help."""

from __future__ import annotations

from collections.abc import Callable

from stoker.host.doctor import (
    aws_variables,
    bridge,
    builder,
    compose,
    disk,
    engine,
    image,
    leftovers,
    packages,
    ports,
    refused_folders,
    region,
    sdk_settings,
    sdks,
    shm,
)
from stoker.host.doctor.finding import Finding, Machine

CHECKS: tuple[Callable[[Machine], Finding], ...] = tuple(
    module.check
    for module in (
        engine,
        builder,
        image,
        bridge,
        packages,
        ports,
        disk,
        shm,
        region,
        aws_variables,
        sdk_settings,
        sdks,
        compose,
        refused_folders,
        leftovers,
    )
)


def examine(machine: Machine) -> list[Finding]:
    """Run every check; one that breaks is a finding, too."""
    return [_run(check, machine) for check in CHECKS]


def _run(check: Callable[[Machine], Finding], machine: Machine) -> Finding:
    try:
        return check(machine)
    except Exception as error:
        name = check.__module__.rpartition(".")[2].replace("_", " ")
        return Finding(
            check=name,
            level="warning",
            text=f"could not be checked: {type(error).__name__}: {error}",
            fix="report it: this is a mistake of ours",
        )

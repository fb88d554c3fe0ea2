"""All checks, gathered from the files of their groups."""

from __future__ import annotations

from stoker.conformance import (
    channels,
    code,
    entry,
    hygiene,
    input,
    machines,
    output,
    running,
    stopping,
    synced_folders,
)
from stoker.conformance.check import CHECKS, Check

# Importing these modules is what registers their checks; the order has no effect.
GROUPS = (
    entry,
    input,
    channels,
    code,
    running,
    stopping,
    machines,
    output,
    synced_folders,
    hygiene,
)


def all_checks() -> list[Check]:
    """Every check, by number."""
    return [CHECKS[number] for number in sorted(CHECKS)]

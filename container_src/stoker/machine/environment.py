"""The environment of the host's commands: read here and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType


def read_environment() -> Mapping[str, str]:
    """The variables of this process, as they are now; a read-only copy."""
    return MappingProxyType(dict(os.environ))


def change_environment(variables: Mapping[str, str], *, removed: Iterable[str]) -> None:
    """Set variables for this process and those it starts (a notebook has no other way)."""
    for name in removed:
        os.environ.pop(name, None)
    os.environ.update(variables)


def default_root() -> Path:
    """Where the local platform lives unless the user says otherwise."""
    return Path.home() / ".stoker/local"

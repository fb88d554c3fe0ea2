"""The extra that reading tensors takes: what to install where it is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stoker.machine.failures import UsageRefused

_MODULES = {"numpy", "crc32c"}


@contextmanager
def tensors_extra() -> Iterator[None]:
    """For imports, and for what imports by itself.

    Raises:
        UsageRefused: a module of the extra is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in _MODULES:
            raise
        raise UsageRefused(
            f"{error.name} is not installed", fix="pip install 'stoker[tensors]'"
        ) from error

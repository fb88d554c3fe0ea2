"""What probe scripts tell us: lines `PROBE key=value`, whatever a launcher prints around them."""

from __future__ import annotations

import re

from stoker.host.conformance.check import NotApplicable
from stoker.host.conformance.lab import Container, Lab

_TORCH = """
import importlib.util
print("PROBE torch=" + ("yes" if importlib.util.find_spec("torch") else "no"), flush=True)
"""


def marks(output: str, key: str) -> list[str]:
    """All values of a key, in the order they were printed."""
    found = re.findall(rf"PROBE {re.escape(key)}=(.*)$", output, re.MULTILINE)
    return [value.strip() for value in found]


def mark(output: str, key: str) -> str:
    """The first value of a key; empty if it was never printed."""
    return next(iter(marks(output, key)), "")


def ends_within(container: Container, seconds: float) -> bool:
    """Waits for the end of a container; False if it goes on."""
    return container.lab.docker("wait", container.id, timeout_seconds=seconds).code == 0


def require_torch(lab: Lab) -> None:
    """Ends the check where there is no torch.

    Raises:
        NotApplicable: the image has none, so nothing is asked of it.
    """
    if mark(lab.run(lab.job(_TORCH)).output, "torch") == "no":
        raise NotApplicable("there is no torch in the image")

"""A probe: a script that looks around from inside a job, in Python and, if need be, in sh."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from stoker.conformance.check import NotApplicable

Language = Literal["python", "sh", "none"]
"""What a script can be written in for an image: Python, else sh; some images have neither."""

SHELL_FILE = Path(__file__).with_name("probes.sh")


@dataclass(frozen=True, kw_only=True, slots=True)
class Script:
    """One probe in both languages."""

    python: str
    sh: str
    """The function of probes.sh that does the same."""


def program_name(language: Language) -> str:
    """The entry point's file; launchers go by its ending."""
    return "probe.sh" if language == "sh" else "probe.py"


def spell(script: Script | str, language: Language) -> str:
    """The text of the entry point; a plain text is Python.

    Raises:
        NotApplicable: there is no Python in the image, and no such probe in sh.
    """
    if language != "sh":
        return script.python if isinstance(script, Script) else script
    if isinstance(script, Script):
        return f'{SHELL_FILE.read_text()}\n{script.sh} "$@"\n'
    if script:
        raise NotApplicable("there is no Python in the image to run a script with")
    return ""

"""What a check is given and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Level = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """What the checks look at."""

    environ: Mapping[str, str]
    root: Path
    """The platform's folder; it need not be there."""

    image: str
    """The image that jobs would use."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing seen."""

    check: str
    level: Level
    text: str
    fix: str = ""

    def __post_init__(self) -> None:
        if (self.level == "ok") != (not self.fix):
            raise ValueError(f"{self.check}: what is not ok needs a fix, and nothing else")

"""The message about a finding, in the service's own words where it has some."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stoker.debugging.rule import Finding


@dataclass(frozen=True, kw_only=True, slots=True)
class Notice:
    """One finding as a message."""

    job: str
    """Name of the training job; empty on a laptop."""
    rule: str
    step: int
    finding: Finding

    @property
    def subject(self) -> str:
        return f"SMDebugRule:{self.rule} fired"

    @property
    def text(self) -> str:
        return f"SMDebugRule:{self.rule} fired. {self.finding.message}"

    @property
    def letter(self) -> str:
        """The text of an e-mail: more than the service tells."""
        lines = [
            self.text,
            "",
            f"Job:  {self.job or '(unnamed)'}",
            f"Step: {self.step}",
            *([f"Tensor: {self.finding.tensor}"] if self.finding.tensor else []),
            *(f"{name}: {value:.6g}" for name, value in self.finding.values.items()),
            *(["", f"What usually helps: {self.finding.hint}"] if self.finding.hint else []),
        ]
        return "\n".join(lines) + "\n"

    def as_json(self) -> Mapping[str, Any]:
        """For a webhook; `text` is what chat programs show."""
        return {
            "text": f"{self.job or 'job'}: {self.text}",
            "job": self.job,
            "rule": self.rule,
            "step": self.step,
            **self.finding.to_json(),
        }

"""One rule as it was asked for, before the class behind it is known."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from stoker.debugging.need import Need
from stoker.errors import RuleInvalid

ActionKind = Literal["stop", "email", "sms", "webhook"]
PRESETS = ("quick",)

# An ordinary address; the SDK's own pattern refuses first.last@example.com.
_ADDRESS = re.compile(r"[^@\s,;<>\"]+@[^@\s,;<>\"]+\.[^@\s,;<>\".]+")
_PHONE = re.compile(r"\+\d{1,15}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Action:
    """What happens when a rule fires."""

    kind: ActionKind
    target: str = ""
    """An address, a phone number or a URL. Of a stop: how the job's name begins, or nothing."""

    def __str__(self) -> str:
        return f"{self.kind}:{self.target}" if self.target else self.kind


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleSpec:
    """One rule of a job: which, with what settings, and what follows when it fires."""

    name: str
    """Unique in its job; what findings and statuses call it (RuleConfigurationName)."""
    rule: str
    """A rule of the catalogue, or a class of the user's: `rules/mine.py:LargeGradient`; with a
    `source` just the name of the class."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """The rule's own, as texts."""
    actions: tuple[Action, ...] = ()
    preset: str = ""
    """"quick" for short jobs (see specs.presets), or nothing."""
    source: str = ""
    """Where the class of a custom rule is: an S3 URI, a file or a folder."""
    other_trials: tuple[str, ...] = ()
    """Saved tensors of other runs, for rules that compare: S3 URIs or folders."""
    is_dry_run: bool = False
    """Its actions only say what they would do."""
    is_from_service: bool = False
    """It came in the service's JSON. A mistake there ends that rule, as it does in the service;
    anywhere else it ends the job before it costs anything."""
    needs: tuple[Need, ...] | None = None
    """What it wants saved, once the rule has been made and asked."""
    fault: str = ""
    """Why there cannot be such a rule; it then ends as an Error."""


def check_action(action: Action) -> Action:
    """The same action.

    Raises:
        RuleInvalid: such an address cannot be reached.
    """
    if action.kind == "email" and not _ADDRESS.fullmatch(action.target):
        raise RuleInvalid(
            f"email wants an address, but got {action.target!r:.80}", fix="email=me@example.com"
        )
    if action.kind == "sms" and not _PHONE.fullmatch(action.target):
        raise RuleInvalid(
            f"sms wants a phone number, but got {action.target!r:.80}", fix="sms=+491701234567"
        )
    if action.kind == "webhook" and not _is_url(action.target):
        raise RuleInvalid(
            "webhook wants an http or https URL, but got something else (a secret, so not shown)",
            fix="webhook=https://example.com/hook",
        )
    return action


def _is_url(text: str) -> bool:
    """One that can be asked: with a port that exists, and no blank or letter a URL cannot have."""
    try:
        parts = urlsplit(text)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    is_clean = text.isascii() and text.isprintable() and " " not in text
    return is_clean and has_host and parts.scheme in ("http", "https")

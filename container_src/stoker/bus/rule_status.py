"""rules.json: how each rule of a job stands. The evaluator writes it, others read it.

{"version": 1, "rules": [{"name", "rule", "status", "details", "step", "evaluated_steps",
"findings", "changed_at"}]}
"""

from __future__ import annotations

import os
import time

from stoker.contract.debugger import rules_file
from stoker.contract.files import write_atomically
from stoker.contract.quick_json import dumps, loads
from stoker.contract.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from stoker.contract.paths import Paths

    Status = Literal["InProgress", "NoIssuesFound", "IssuesFound", "Error", "Stopping", "Stopped"]

VERSION = 1
IN_PROGRESS = "InProgress"
DETAILS_LIMIT_CHARACTERS = 1024
"""As many as the service keeps of its StatusDetails."""


class RuleStatus(Record):
    """One rule, in the service's words."""

    name: str
    rule: str
    status: Status
    details: str = ""
    step: int = -1
    """Where it fired; -1 if it did not."""
    evaluated_steps: int = 0
    findings: int = 0
    changed_at: str = ""
    """ISO 8601, UTC."""

    def with_status(self, status: Status, details: str = "") -> RuleStatus:
        """The same rule, now so."""
        kept = details[:DETAILS_LIMIT_CHARACTERS]
        return self.replace(status=status, details=kept, changed_at=now_text())


def now_text() -> str:
    """The time, as all our files have it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def write_rule_statuses(paths: Paths, rules: Sequence[RuleStatus]) -> None:
    """Replaces rules.json as a whole.

    Raises:
        OSError: it cannot be written.
    """
    file = rules_file(paths)
    os.makedirs(os.path.dirname(file), exist_ok=True)
    entries = [rule.__dict__ for rule in rules]
    write_atomically(file, dumps({"version": VERSION, "rules": entries}))


def read_rule_statuses(paths: Paths) -> list[RuleStatus]:
    """How the rules stand; empty if there are none, or nobody could read the file."""
    try:
        with open(rules_file(paths), "rb") as file:
            content = loads(file.read().decode())
        return [RuleStatus(**entry) for entry in content["rules"]]
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return []


def close_rules(paths: Paths, status: Status, details: str) -> None:
    """Ends the rules that are still in progress, because nobody evaluates them any more."""
    rules = read_rule_statuses(paths)
    closed = [
        rule.with_status(status, details) if rule.status == IN_PROGRESS else rule for rule in rules
    ]
    if closed == rules:
        return
    try:
        write_rule_statuses(paths, closed)
    except OSError:
        return

"""rules.json: the status of each rule of a job. The evaluator writes it, others read it.

{"version": 1, "rules": [{"name", "rule", "status", "details", "step", "evaluated_steps",
"findings", "modified"}]}
"""

from __future__ import annotations

import os
import time

from stoker.contract.debugger import rules_file
from stoker.contract.files import read_regular, write_atomically
from stoker.contract.quick_json import dumps, loads
from stoker.contract.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from stoker.contract.paths import Paths

    Status = Literal["InProgress", "NoIssuesFound", "IssuesFound", "Error", "Stopping", "Stopped"]

VERSION = 1
STATUSES: tuple[Status, ...] = (
    *("InProgress", "NoIssuesFound", "IssuesFound", "Error", "Stopping", "Stopped"),
)
DETAILS_LIMIT_CHARACTERS = 1024
"""As many as the service keeps of its StatusDetails."""


class RuleStatus(Record):
    """One rule, in the service's words."""

    name: str
    rule: str = ""
    """Which rule of the catalogue or of the user's code; the platform does not keep it."""
    status: Status
    details: str = ""
    step: int = -1
    """Where it fired; -1 if it did not."""
    evaluated_steps: int = 0
    findings: int = 0
    modified: float = 0.0
    """When the status was reached or, in the platform's records, first seen: Unix time."""

    def with_status(self, status: Status, details: str = "") -> RuleStatus:
        """The same rule, now so."""
        kept = details[:DETAILS_LIMIT_CHARACTERS]
        return self.replace(status=status, details=kept, modified=time.time())


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
    """The statuses of the rules; empty if there are none, or the file cannot be read."""
    try:
        content = loads(read_regular(rules_file(paths)).decode())
        return [RuleStatus.read(entry) for entry in content["rules"]]
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return []


def close_rules(paths: Paths, status: Status, details: str) -> None:
    """Ends the rules that are still in progress, because no process evaluates them any more."""
    rules = read_rule_statuses(paths)
    closed = [
        rule.with_status(status, details) if rule.status == "InProgress" else rule
        for rule in rules
    ]
    if closed == rules:
        return
    try:
        write_rule_statuses(paths, closed)
    except OSError:
        return

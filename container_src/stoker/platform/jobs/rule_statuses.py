"""The rules of a job as DescribeTrainingJob shows them: pure functions over its record.

The evaluator in the leader's container replaces rules.json whenever a status changes. What it says
is recorded; what it can no longer say (it died, or the image has none) is said for it at the end.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stoker.bus.rule_status import DETAILS_LIMIT_CHARACTERS, STATUSES, RuleStatus
from stoker.platform.jobs.state import JobRecord
from stoker.platform.model.root import ACCOUNT, REGION

_NO_EVALUATOR = (
    "nothing in the container evaluated this rule: its image has no evaluator, or the rule was "
    "added to a job that began without rules and without a profiler; fix: train with Stoker's "
    "image, or evaluate what was saved by `stoker rules run` and `stoker report`"
)
_EVALUATOR_DIED = (
    "the evaluator ended before it had evaluated every step; its last words are in the job's log"
)
_NOT_BEGUN = "the job ended before this rule was evaluated"
_KINDS = {
    "DebugRuleEvaluationStatuses": "DebugRuleConfigurations",
    "ProfilerRuleEvaluationStatuses": "ProfilerRuleConfigurations",
}


def parse_statuses(text: bytes, now: float) -> tuple[RuleStatus, ...]:
    """What rules.json says; what makes no sense in it is left out: a job may write anything."""
    try:
        said = json.loads(text)["rules"]
        entries = [entry for entry in said if isinstance(entry, dict)]
    except (ValueError, RecursionError, TypeError, KeyError):
        return ()
    found = {}
    for entry in entries:
        name, status, details = (entry.get(key) for key in ("name", "status", "details"))
        if isinstance(name, str) and status in STATUSES:
            words = details[:DETAILS_LIMIT_CHARACTERS] if isinstance(details, str) else ""
            found[name] = RuleStatus(name=name, status=status, details=words, modified=now)
    return tuple(found.values())


def note_statuses(record: JobRecord, said: tuple[RuleStatus, ...]) -> JobRecord:
    """The record with what the evaluator says now; the same object if that is nothing new.

    An issue stays found: the evaluator of a later attempt does not see the earlier steps.
    """
    known = {rule.name: rule for rule in record.rules}
    names = {rule["RuleConfigurationName"] for rule in _rules(record)}
    changed = [
        rule
        for rule in said
        if rule.name in names and not _is_found(known.get(rule.name)) and _differs(rule, known)
    ]
    if not changed:
        return record
    rules = {**known, **{rule.name: rule for rule in changed}}
    return replace(record, rules=tuple(rules.values()), modified=changed[0].modified)


def reopen(record: JobRecord, now: float) -> JobRecord:
    """Before another attempt: rules that have found nothing are in progress again."""
    rules = tuple(
        rule
        if _is_found(rule) or rule.status == "InProgress"
        else RuleStatus(name=rule.name, status="InProgress", modified=now)
        for rule in record.rules
    )
    return replace(record, rules=rules)


def settle(record: JobRecord, now: float) -> JobRecord:
    """At a job's end no rule is in progress any more."""
    known = {rule.name: rule for rule in record.rules}
    for config in _rules(record):
        name = config["RuleConfigurationName"]
        if name not in known or known[name].status in ("InProgress", "Stopping"):
            known[name] = _last_word(record, name, name in known, now)
    return replace(record, rules=tuple(known.values()))


def describe_rules(record: JobRecord) -> dict[str, Any]:
    """The two lists of DescribeTrainingJob's answer; a job without rules has none of them."""
    known = {rule.name: rule for rule in record.rules}
    shown = {
        field: [
            _show(record, known.get(name) or _first(record, name))
            for name in (rule["RuleConfigurationName"] for rule in record.request.get(asked, ()))
        ]
        for field, asked in _KINDS.items()
    }
    return {field: statuses for field, statuses in shown.items() if statuses}


def make_rule_job_arn(job: str, rule: str) -> str:
    """The service evaluates each rule by a processing job; its name is cut and ends in a hash."""
    mark = hashlib.sha256(f"{job}/{rule}".encode()).hexdigest()[:8]
    name = re.sub(r"[^a-z0-9]+", "-", f"{job[:26]}-{rule[:26]}".lower()).strip("-")
    return f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:processing-job/{name}-{mark}"


def _rules(record: JobRecord) -> list[Mapping[str, Any]]:
    return [rule for asked in _KINDS.values() for rule in record.request.get(asked, ())]


def _first(record: JobRecord, name: str) -> RuleStatus:
    return RuleStatus(name=name, status="InProgress", modified=record.created)


def _is_found(rule: RuleStatus | None) -> bool:
    return rule is not None and rule.status == "IssuesFound"


def _differs(rule: RuleStatus, known: Mapping[str, RuleStatus]) -> bool:
    before = known.get(rule.name)
    return before is None or (before.status, before.details) != (rule.status, rule.details)


def _last_word(record: JobRecord, name: str, was_begun: bool, now: float) -> RuleStatus:
    status = record.verdict.status if record.verdict else "Failed"
    if status == "Stopped":
        return RuleStatus(name=name, status="Stopped", modified=now)
    if was_begun:
        return RuleStatus(name=name, status="Error", details=_EVALUATOR_DIED, modified=now)
    words = _NO_EVALUATOR if status == "Completed" else _NOT_BEGUN
    return RuleStatus(name=name, status="Error", details=words, modified=now)


def _show(record: JobRecord, rule: RuleStatus) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "RuleConfigurationName": rule.name,
        "RuleEvaluationJobArn": make_rule_job_arn(record.name, rule.name),
        "RuleEvaluationStatus": rule.status,
        "LastModifiedTime": rule.modified,
    }
    return {**shown, "StatusDetails": rule.details} if rule.details else shown

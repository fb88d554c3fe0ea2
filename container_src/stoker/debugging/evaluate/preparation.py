"""Before the worker starts: the rules are read, fetched and tried, and their needs written down.

A misspelt rule costs a second here, and not a night on a GPU.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from stoker.bus.rule_plan import read_rule_plan, write_rule_plan
from stoker.bus.rule_status import RuleStatus, write_rule_statuses
from stoker.contract.debugger import (
    END_MARKER,
    SMTP_VARIABLE,
    findings_file,
    join_rules,
    tensors_dir,
)
from stoker.contract.files import remove_file
from stoker.contract.job import Job
from stoker.debugging.actions.mail import read_mail_server
from stoker.debugging.specs import (
    RuleSpec,
    check_specs,
    describe_needs,
    read_project_specs,
    read_specs,
    write_specs,
)
from stoker.debugging.tensors.layout import INDEX
from stoker.errors import PreparationFailed

_FETCH_FIX = "check the address; the job's role needs s3:GetObject and s3:ListBucket for it"


def prepare_rules(
    job: Job, code_dir: Path, *, longest_seconds: float | None = None
) -> list[RuleSpec]:
    """Leaves the rules as one checked text for the launcher, and rules.json as it begins.

    Args:
        job: the job.
        code_dir: its source directory.
        longest_seconds: how long each rule may take to be made.

    Returns:
        The rules. Faulty ones that came from the service are among them; they end as Errors.

    Raises:
        RuleInvalid: mistakes in STOKER_RULES or stoker.toml, all of them in one text; or an
            address that is not one of a mail server.
        OSError: the files cannot be written.
    """
    specs = read_project_specs(join_rules(job.environ), code_dir)
    folder = Path(job.paths.output_dir) / "stoker" / "rules"
    fetched = [fetch(spec, folder / str(place)) for place, spec in enumerate(specs)]
    described = describe_needs(fetched, code_dir=code_dir, longest_seconds=longest_seconds)
    check_specs(described)
    _check_mail_server(job, described)
    # Only now: a mistake in the rules leaves the attempt before as it was.
    _forget_the_attempt_before(job)
    write_rule_statuses(job.paths, [_first_status(spec) for spec in described])
    # Without actions: the address of a webhook is its password, and no file is to have it.
    write_rule_plan(job.paths, write_specs([replace(spec, actions=()) for spec in described]))
    return described


def read_prepared_rules(job: Job, code_dir: Path) -> list[RuleSpec]:
    """The rules as `prepare_rules` returned them: the plan, and the actions that were asked for.

    Raises:
        RuleInvalid: the plan, or what was asked for, has been changed since and is invalid.
        OSError: the plan cannot be read.
    """
    asked = read_project_specs(join_rules(job.environ), code_dir)
    actions = {spec.name: spec.actions for spec in asked}
    plan = read_specs(read_rule_plan(job.paths))
    return [replace(spec, actions=actions.get(spec.name, ())) for spec in plan]


def fetch(spec: RuleSpec, folder: Path) -> RuleSpec:
    """The same with everything on this disk: a custom rule's code, the tensors of other runs.

    What cannot be fetched is its fault.
    """
    other_places = [(place, folder / f"other-{n}") for n, place in enumerate(spec.other_trials)]
    places = [(spec.source, folder), *other_places]
    if not any(_is_remote(place) for place, _ in places):
        return spec
    # boto3 takes a second to import; rules of the catalogue never need it.
    from stoker.storage.aws import download

    try:
        source, *others = [
            str(download(place, target, fix=_FETCH_FIX)) if _is_remote(place) else place
            for place, target in places
        ]
    except PreparationFailed as error:
        return replace(spec, fault=spec.fault or str(error))
    return replace(spec, source=source, other_trials=tuple(others))


def _check_mail_server(job: Job, specs: Sequence[RuleSpec]) -> None:
    """Now, not in the night in which a rule has something to tell."""
    url = job.environ.get(SMTP_VARIABLE, "")
    if url and any(action.kind == "email" for spec in specs for action in spec.actions):
        read_mail_server(url)


def _is_remote(place: str) -> bool:
    return place.startswith("s3://")


def _forget_the_attempt_before(job: Job) -> None:
    """On a laptop several runs share a root; no rule must stop this one for the last one's sake.

    A container begins with an empty folder. Tensors that are in it anyway are moved aside.
    """
    remove_file(findings_file(job.paths))
    tensors = Path(tensors_dir(job.paths, job.services.debug_hook))
    if (tensors / INDEX).is_dir():
        names = (tensors.with_name(f"{tensors.name}.before-{n}") for n in itertools.count(1))
        aside = next(name for name in names if not name.exists())
        try:
            tensors.rename(aside)
        except OSError as error:  # a mount of its own
            print(f"[stoker] warning: rules will see the old tensors in {tensors}, too: {error}")
    remove_file(str(tensors / END_MARKER))


def _first_status(spec: RuleSpec) -> RuleStatus:
    status = RuleStatus(name=spec.name, rule=spec.rule, status="InProgress", modified=time.time())
    return status.with_status("Error", spec.fault) if spec.fault else status


def summarize(specs: Sequence[RuleSpec]) -> str:
    """One line for the log: which rules, and what they may do."""
    return ", ".join(
        f"{spec.name} ({', '.join(action.kind for action in spec.actions)})"
        if spec.actions
        else spec.name
        for spec in specs
    )

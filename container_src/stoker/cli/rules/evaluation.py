"""What a rule says of a run that is over, from what was saved of it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.bus.rule_status import RuleStatus
from stoker.cli.rules.catalogue import find_name, find_rule
from stoker.cli.tensors.bucket import open_tensors
from stoker.cli.tensors.listing import require_tensors
from stoker.debugging.evaluate.offline import evaluate_saved
from stoker.debugging.evaluate.preparation import fetch
from stoker.debugging.evaluate.watched import Fired
from stoker.debugging.report import Report, render_report
from stoker.debugging.report.curves import read_curves
from stoker.debugging.specs.settings import make_spec
from stoker.debugging.tensors import SavedTensors
from stoker.errors import PreparationFailed
from stoker.machine.failures import UsageRefused


def parse_settings(texts: Sequence[str]) -> dict[str, str]:
    """`threshold=0.5` and the like.

    Raises:
        UsageRefused: one is not of this form, or is given twice.
    """
    settings: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise UsageRefused(f"--param {text!r} has no value", fix="--param NAME=VALUE")
        if name in settings:
            raise UsageRefused(f"--param {name} is given twice", fix="leave one out")
        settings[name] = value
    return settings


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """One rule over one run."""

    rule: str
    """As it was asked for."""
    status: RuleStatus
    findings: tuple[Fired, ...]
    saved_steps: int


@contextmanager
def open_run(place: str, rule: str) -> Iterator[SavedTensors]:
    """The saved run of a place, as this rule can read it.

    Raises:
        UsageRefused: there is no such rule or place, or nothing was saved there.
        StorageFailed: S3 refuses.
    """
    is_smdebugs = hasattr(find_rule(rule), "rule_class")
    if place.startswith("s3://") and is_smdebugs:  # smdebug opens the files itself
        with tempfile.TemporaryDirectory(prefix="stoker-rules-") as folder:
            yield _download(place, Path(folder))
        return
    with open_tensors(place) as saved:
        require_tensors(saved, place)
        yield saved


def evaluate(saved: SavedTensors, rule: str, settings: Mapping[str, str]) -> Evaluation:
    """Ask a rule about every step, in order, up to the first at which it fires.

    Raises:
        UsageRefused: nothing can be evaluated.
    """
    if not saved.steps():
        raise UsageRefused(
            f"there is no saved step in {saved.folder}",
            fix="name the folder of tensors: it holds `index` and `collections`",
        )
    findings: list[Fired] = []
    spec = make_spec(rule, find_name(rule), settings)
    with tempfile.TemporaryDirectory(prefix="stoker-rules-") as folder:
        spec = fetch(spec, Path(folder))
        (watched,) = evaluate_saved(saved, [spec], code_dir=Path(), on_fire=findings.append)
    return Evaluation(
        rule=rule,
        status=watched.status,
        findings=tuple(findings),
        saved_steps=len(saved.steps()),
    )


def to_json(evaluation: Evaluation) -> dict[str, Any]:
    """The same for programs."""
    status = evaluation.status
    return {
        "rule": evaluation.rule,
        "status": status.status,
        "details": status.details.strip(),
        "saved_steps": evaluation.saved_steps,
        "evaluated_steps": status.evaluated_steps,
        "findings": [_finding(fired) for fired in evaluation.findings],
    }


def render(evaluation: Evaluation) -> str:
    """The same for people."""
    status = evaluation.status
    seen = f"{status.evaluated_steps} of {evaluation.saved_steps} saved steps"
    lines = [f"{evaluation.rule}: {status.status} ({seen} evaluated)"]
    for fired in evaluation.findings:
        lines.append(f"  step {fired.step} ({fired.mode}): {fired.finding.message}")
        lines += [f"  hint: {fired.finding.hint}"] if fired.finding.hint else []
    if status.details.strip() and not evaluation.findings:
        lines.append(f"  {status.details.strip()}")
    return "\n".join(lines)


def render_page(evaluation: Evaluation, saved: SavedTensors, *, place: str) -> str:
    """The same as a page, with the losses of the run."""
    steps = [fired.step for fired in evaluation.findings]
    return render_report(
        Report(
            title=place,
            rules=(evaluation.status,),
            findings=evaluation.findings,
            curves=tuple(read_curves(saved, required_steps=steps)),
            saved_steps=evaluation.saved_steps,
        )
    )


def _download(place: str, folder: Path) -> SavedTensors:
    # boto3 takes a second to import.
    from stoker.storage.aws import download

    try:
        saved = SavedTensors(download(place, folder, fix="check the address and the permissions"))
    except PreparationFailed as error:
        raise UsageRefused(error.message, fix=error.fix) from error
    require_tensors(saved, place)
    return saved


def _finding(fired: Fired) -> dict[str, Any]:
    where = {"step": fired.step, "mode": fired.mode, "mode_step": fired.mode_step}
    return {**where, **fired.finding.to_json()}

"""The deliberate faults, one for each check: what is broken, which checks notice, its image."""

from __future__ import annotations

import importlib
import inspect
import re
import shutil
import subprocess
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from stoker.conformance.checks import all_checks
from stoker.conformance.runner import Result, Task, run_checks
from stoker.machine.docker import find_builder, find_client

HERE = Path(__file__).parent
IMAGE = "stoker:cpu"
CHECKS = {check.number: check for check in all_checks()}


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One way to break the contract; the check of the same number must find it."""

    number: int
    what: str
    lines: tuple[str, ...]
    """What its image adds to ours."""
    also: dict[int, str]
    """Other checks that fail because of it, and why they cannot but fail."""
    source: str
    """The text that defines it, without what is declared about other checks."""

    @property
    def fails(self) -> set[int]:
        return {self.number, *self.also}


def all_faults() -> dict[int, Fault]:
    return {number: _read_fault(number) for number in sorted(CHECKS)}


def _read_fault(number: int) -> Fault:
    group = CHECKS[number].group
    module = importlib.import_module(f"tests.conformance.faults_{group}")
    patch, image = module.FAULTS.get(number), module.IMAGES.get(number)
    lines, what = [], ""
    if patch is not None:
        lines += ["COPY *.py /faults/", "COPY --chmod=755 broken_train.py /opt/venv/bin/train"]
        lines += [f"ENV STOKER_FAULT={number} STOKER_FAULT_GROUP={group}"]
        what = re.sub(r"^\d+: ", "", patch.__doc__)
    if image is not None:
        what, text = image
        lines += [text]
    also = {
        check: reason
        for reason, checks in module.ALSO.get(number, {}).items()
        for check in sorted(checks)
    }
    source = "\n".join(lines) + (_source_of(patch, module) if patch else "")
    return Fault(number=number, what=what, lines=tuple(lines), also=also, source=source)


def _source_of(patch: Callable[[], None], module: ModuleType) -> str:
    """A fault's own text, and that of the helpers that the faults of its file share."""
    helpers = [
        inspect.getsource(value)
        for name, value in sorted(vars(module).items())
        if name.startswith("_")
        and inspect.isfunction(value)
        and value.__module__ == module.__name__
    ]
    return "".join((inspect.getsource(patch), *helpers))


def run_twice(tasks: list[Task]) -> list[Result]:
    """Runs checks two by two, and once more, alone, those that did not pass.

    Their results are kept for many tests, so that to repeat one of these would repeat nothing.
    """
    results = {(r.check.number, r.init): r for r in _run(tasks, jobs=2)}
    again = [t for t in tasks if results[t.check.number, t.init].status != "pass"]
    results |= {(r.check.number, r.init): r for r in (_run(again, jobs=1) if again else [])}
    return list(results.values())


def _run(tasks: list[Task], *, jobs: int) -> list[Result]:
    return run_checks(find_client(), tasks, jobs=jobs, on_result=lambda _: None)


class Workshop:
    """Builds the broken images under names that no other run has, and removes them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._name = f"stoker-broken-{uuid.uuid4().hex[:12]}"
        self._made: dict[int, str] = {}

    def image(self, fault: Fault) -> str:
        """The image with one fault, built when it is asked for the first time."""
        if fault.number not in self._made:
            self._made[fault.number] = self._build(fault)
        return self._made[fault.number]

    def close(self) -> None:
        if self._made:
            command = [find_client(), "rmi", "--force", *self._made.values()]
            subprocess.run(command, capture_output=True, timeout=300)
        self._made.clear()

    def _build(self, fault: Fault) -> str:
        context = self._folder / f"fault{fault.number}"
        context.mkdir(exist_ok=True)
        for file in HERE.glob("*.py"):
            shutil.copy(file, context)
        (context / "Dockerfile").write_text("\n".join((f"FROM {IMAGE}", *fault.lines)) + "\n")
        tag = f"{self._name}:{fault.number}"
        command = [*find_builder().argv, "--quiet", "--tag", tag, str(context)]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        return tag

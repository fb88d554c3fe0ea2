"""Tries every check on every deliberate fault: does a fault fail its own check and no other?

54 faults and 54 checks are 2916 pairs, hours of containers: so what was tried is remembered in
cross.json, the next run continues where the last one stopped, and docs/faults.md says what is
untried. A pair is tried again when the code of its check, its fault or of what both share has
changed (not its comments); the launcher below them is not part of it, but docs/faults.md tells
how many pairs were tried with another one than today's. Quick checks come first. A failure that
that is declared nowhere counts if it comes twice.

Usage: python -m tests.conformance.cross [--minutes M] [--jobs N] [--table-only]
Exit codes: 0 as declared (or untried), 1 a pair is not as declared.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import tokenize
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import stoker
from stoker.conformance.checks import GROUPS
from stoker.conformance.runner import Result, Task, run_checks
from stoker.machine.docker import find_client
from tests.conformance.cross_table import render_table
from tests.conformance.faults import CHECKS, HERE, IMAGE, Fault, Workshop, all_faults

MEMORY = HERE / "cross.json"
TABLE = HERE.parents[1] / "docs/faults.md"
UNBROKEN = 0
"""The number of our image as it is, which every check must pass."""
_BATCH_PER_JOB = 4
"""Pairs between two looks at the clock: enough that one slow pair holds up few others."""
_MOST_SEEN_CHARACTERS = 160
_SOURCE = Path(stoker.__file__).parent
_CONFORMANCE = _SOURCE / "conformance"


@dataclass(frozen=True, order=True)
class Pair:
    """One check on one fault."""

    fault: int
    check: int

    def __str__(self) -> str:
        return f"{self.fault}/{self.check}"


class Memory:
    """What was tried, by pair; what was tried with other sources does not count."""

    def __init__(self, file: Path, faults: dict[int, Fault]) -> None:
        self._file = file
        self._keys = _make_keys(faults)
        self.launcher = ""
        """The version of the launcher that is being tried."""
        self._entries = json.loads(file.read_text()) if file.exists() else {}

    def find(self, pair: Pair) -> dict[str, object] | None:
        entry = self._entries.get(str(pair))
        return entry if entry and entry["key"] == self._keys[pair] else None

    def status(self, pair: Pair) -> str:
        """pass, fail, n/a; empty for an untried pair."""
        return str((self.find(pair) or {}).get("status", ""))

    def add(self, pair: Pair, result: Result, unsteady: str = "") -> None:
        entry = {"key": self._keys[pair], "launcher": self.launcher, "status": result.status}
        if result.status != "pass" and pair.fault != pair.check:
            entry["seen"] = result.seen[:_MOST_SEEN_CHARACTERS]
        if unsteady:
            entry["once"] = unsteady[:_MOST_SEEN_CHARACTERS]
        self._entries[str(pair)] = {**entry, "seconds": round(result.seconds, 1)}
        self._save()

    def launcher_of(self, pair: Pair) -> str:
        return str((self.find(pair) or {}).get("launcher", ""))

    def seconds(self, check: int) -> float:
        """How long a check takes on the unbroken image."""
        entry = self.find(Pair(UNBROKEN, check))
        return float(str(entry["seconds"])) if entry else 0.0

    def _save(self) -> None:
        ordered = sorted(self._entries, key=lambda name: [int(part) for part in name.split("/")])
        lines = [f"{json.dumps(name)}: {json.dumps(self._entries[name])}" for name in ordered]
        temporary = self._file.with_suffix(".tmp")
        temporary.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        os.replace(temporary, self._file)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=24 * 60.0, help="stop after that time")
    parser.add_argument("--jobs", type=int, default=1, help="how many pairs side by side (1)")
    parser.add_argument("--table-only", action="store_true", help="try nothing, write the table")
    args = parser.parse_args(argv)
    faults = all_faults()
    memory = Memory(MEMORY, faults)
    if not args.table_only:
        # An end by `kill` shall remove images and containers, too.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        memory.launcher = _ask_for_launcher()
        _try_pairs(faults, memory, jobs=args.jobs, deadline=time.monotonic() + args.minutes * 60)
    today = _hash_launcher()
    statuses = {pair: memory.status(pair) for pair in _all_pairs(faults)}
    unsteady = [pair for pair in statuses if "once" in (memory.find(pair) or {})]
    TABLE.write_text(
        render_table(
            faults,
            {(pair.fault, pair.check): status for pair, status in statuses.items()},
            unsteady=[(pair.fault, pair.check) for pair in unsteady],
            older=sum(bool(s) and memory.launcher_of(p) != today for p, s in statuses.items()),
        )
    )
    wrong = [p for p, status in statuses.items() if not _is_as_declared(p, status, faults)]
    for pair in wrong:
        seen = (memory.find(pair) or {}).get("seen", "")
        print(f"fault {pair.fault}, check {pair.check}: {statuses[pair]}, not as declared: {seen}")
    untried = sum(not status for status in statuses.values())
    print(f"{len(statuses) - untried} of {len(statuses)} pairs tried, {len(wrong)} unexpected")
    return 1 if wrong else 0


def _try_pairs(faults: dict[int, Fault], memory: Memory, *, jobs: int, deadline: float) -> None:
    with tempfile.TemporaryDirectory(prefix="stoker-cross-") as folder:
        workshop = Workshop(Path(folder))
        try:
            while time.monotonic() < deadline:
                batch = _next_pairs(faults, memory)[: jobs * _BATCH_PER_JOB]
                if not batch:
                    return
                _try_batch(batch, faults, memory, workshop, jobs)
        finally:
            workshop.close()


def _next_pairs(faults: dict[int, Fault], memory: Memory) -> list[Pair]:
    """The unbroken image first: it tells how long each check takes."""
    for number in (UNBROKEN, *sorted(CHECKS, key=lambda number: (memory.seconds(number), number))):
        row = (
            [Pair(UNBROKEN, check) for check in CHECKS]
            if number == UNBROKEN
            else [Pair(fault, number) for fault in faults]
        )
        untried = [pair for pair in row if not memory.status(pair)]
        if untried:
            return untried
    return []


def _try_batch(
    batch: list[Pair], faults: dict[int, Fault], memory: Memory, workshop: Workshop, jobs: int
) -> None:
    first = _run(batch, faults, workshop, jobs)
    surprising = [
        pair for pair, result in first.items() if not _is_as_declared(pair, result.status, faults)
    ]
    second = _run(surprising, faults, workshop, jobs)
    for pair, result in first.items():
        again = second.get(pair, result)
        unsteady = result.seen if again.status != result.status else ""
        memory.add(pair, again, unsteady)
        mark = " (surprising)" if pair in surprising else ""
        print(f"{pair}: {again.status} {again.seconds:.1f} s{mark} {again.seen[:120]}", flush=True)


def _run(
    pairs: list[Pair], faults: dict[int, Fault], workshop: Workshop, jobs: int
) -> dict[Pair, Result]:
    images = {
        pair: IMAGE if pair.fault == UNBROKEN else workshop.image(faults[pair.fault])
        for pair in pairs
    }
    by_task = {(images[pair], pair.check): pair for pair in pairs}
    tasks = [
        Task(image=images[pair], check=CHECKS[pair.check], init=False, language="python")
        for pair in pairs
    ]
    if not tasks:
        return {}
    results = run_checks(find_client(), tasks, jobs=jobs, on_result=lambda _: None)
    return {by_task[result.image, result.check.number]: result for result in results}


def _is_as_declared(pair: Pair, status: str, faults: dict[int, Fault]) -> bool:
    if not status:
        return True
    fails = pair.fault != UNBROKEN and pair.check in faults[pair.fault].fails
    # Nothing more is asked of an image to which a check does not apply.
    return status == "fail" if fails else status in ("pass", "n/a")


def _all_pairs(faults: dict[int, Fault]) -> Iterator[Pair]:
    for fault in (UNBROKEN, *faults):
        for check in CHECKS:
            yield Pair(fault, check)


def _make_keys(faults: dict[int, Fault]) -> dict[Pair, str]:
    """A hash per pair: of its check's file, its fault's file and all that they share."""
    modules = {module.__name__: Path(str(module.__file__)) for module in GROUPS}
    own = {*modules.values(), *(_CONFORMANCE / name for name in ("page.py", "report.py"))}
    shared = (*_read(_CONFORMANCE, without=own), (HERE / "broken_train.py").read_text())
    common = "".join(map(strip_comments, shared))
    files = {name: strip_comments(file.read_text()) for name, file in modules.items()}
    checks = {number: files[check.tried.__module__] for number, check in CHECKS.items()}
    texts = {UNBROKEN: "", **{n: f"{n}{fault.source}" for n, fault in faults.items()}}
    return {
        pair: _hash(common, checks[pair.check], texts[pair.fault]) for pair in _all_pairs(faults)
    }


def strip_comments(text: str) -> str:
    """The same program: nothing that is tried depends on a comment or an empty line."""
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _hash_launcher() -> str:
    """Of the sources here."""
    texts = _read(_SOURCE / "contract", _SOURCE / "runtime")
    return hashlib.sha256("".join(texts).encode()).hexdigest()[:12]


def _ask_for_launcher() -> str:
    """The same of the sources in the image, which may have been built from others."""
    look = (
        "cd /opt/venv/lib/python3*/site-packages/stoker && "
        "find contract runtime -name '*.py' | LC_ALL=C sort | xargs cat | sha256sum"
    )
    command = [find_client(), "run", "--rm", "--entrypoint", "/bin/sh", IMAGE, "-c", look]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=240)
    return done.stdout[:12]


def _read(*folders: Path, without: Collection[Path] = ()) -> list[str]:
    files = sorted(file for folder in folders for file in folder.rglob("*.py"))
    return [file.read_text() for file in files if file not in without]


def _hash(*texts: str) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(hashlib.sha256(text.encode()).digest())
    return digest.hexdigest()[:12]


if __name__ == "__main__":
    sys.exit(main())

"""`stoker smdebug install`: smdebug, made fit for today's stack, in the user's environment."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from stoker.debugging.repack import LEVEL, UPSTREAM_SHA256, VERSION, repack
from stoker.debugging.smdebug_edits import EDITS, UPSTREAM, RepackFailed
from stoker.machine.failures import InstallFailed, UsageRefused

_PIP_SECONDS = 600
_LOOK_SECONDS = 60
_OLDEST_PROTOBUF = (3, 20)
# Run by the Python that gets it.
_LOOK = """\
import importlib.metadata, json
def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
print(json.dumps({name: version(name) for name in ("smdebug", "protobuf")}))
"""
# The last lines that pip prints, and what to do about them.
_HINTS = (
    (
        "DO NOT MATCH THE HASHES",
        "a package source of this machine offers another file under that name (pip config list);"
        " fetch the published wheel elsewhere and give it with --wheel",
    ),
    ("No space left on device", "free disk space"),
    ("externally-managed-environment", "make a virtual environment, or name one with --python"),
    ("Permission denied", "make a virtual environment, or name one with --python"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class InstallPlan:
    """What an installation does, before it does any of it."""

    python: str
    """The interpreter whose environment gets smdebug."""

    target: Path | None
    """A folder that gets it instead, alone."""

    wheel: Path | None
    """smdebug as published, if the user has it already."""

    installed: str | None
    """The version that is there now."""


def run(args: argparse.Namespace) -> int:
    """Make the plan; print it or carry it out."""
    plan = plan_install(args)
    print(render(plan), flush=True)
    if not args.dry_run:
        carry_out(plan)
    return 0


def plan_install(args: argparse.Namespace) -> InstallPlan:
    """Look at the environment and decide.

    Raises:
        UsageRefused: what is installed there does not go together with it.
    """
    python = args.python or sys.executable
    found = {} if args.target else look_at(python)
    installed, protobuf = found.get("smdebug"), found.get("protobuf")
    if installed and not installed.startswith(f"{UPSTREAM}+stoker"):
        raise UsageRefused(
            f"smdebug {installed} is installed there, and it is not ours",
            fix=f"{python} -m pip uninstall smdebug, and again",
        )
    if protobuf and tuple(map(int, re.findall(r"\d+", protobuf)[:2])) < _OLDEST_PROTOBUF:
        raise UsageRefused(
            f"protobuf {protobuf} is installed there, but smdebug {VERSION} needs 3.20 or newer",
            fix=f"{python} -m pip install --upgrade protobuf",
        )
    return InstallPlan(
        python=python, target=args.target, wheel=args.wheel, installed=installed or None
    )


def look_at(python: str) -> dict[str, str | None]:
    """The versions of smdebug and protobuf in the environment of an interpreter.

    Raises:
        UsageRefused: it is none, or does not work.
    """
    try:
        done = subprocess.run(
            [python, "-c", _LOOK], capture_output=True, text=True, timeout=_LOOK_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageRefused(
            f"{python} cannot be run: {error}", fix="name a Python: --python venv/bin/python"
        ) from error
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:]
        raise UsageRefused(
            f"{python} ended with {done.returncode}: {''.join(last)}",
            fix="name a Python: --python venv/bin/python",
        )
    found: dict[str, str | None] = json.loads(done.stdout)
    return found


def make_download(folder: Path) -> list[str]:
    """How the published wheel is fetched; `folder` holds the hash in requirements.txt."""
    pip = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps"]
    return [*pip, "--require-hashes", "--dest", str(folder), "-r", f"{folder}/requirements.txt"]


def make_install(plan: InstallPlan, wheel: Path) -> list[str]:
    """How the repacked wheel is installed."""
    # Our own pip with --python: the other environment need not have one.
    pip = [sys.executable, "-m", "pip"]
    if plan.target:
        where = ["--no-deps", "--upgrade", "--target", str(plan.target)]
    elif plan.installed == VERSION:  # perhaps with other edits: pip would keep what is there
        where = ["--no-deps", "--force-reinstall"]
    else:
        where = []
    there = [] if plan.target else ["--python", plan.python]
    return [*pip, *there, "install", "--disable-pip-version-check", *where, str(wheel)]


def render(plan: InstallPlan) -> str:
    """The plan for people."""
    place = f"into {plan.target}, alone" if plan.target else f"for {plan.python}"
    now = f" ({plan.installed} is there)" if plan.installed else ""
    lines = [f"smdebug: {VERSION} {place}{now}"]
    if plan.wheel:
        lines += [f"smdebug: from {plan.wheel}"]
    else:
        lines += [f"$ {shlex.join(make_download(Path('TEMPORARY')))}"]
    lines += [f"smdebug: {len(EDITS[LEVEL])} edits, each listed in its STOKER-CHANGES"]
    return "\n".join([*lines, f"$ {shlex.join(make_install(plan, Path('WHEEL')))}"])


def carry_out(plan: InstallPlan) -> None:
    """Fetch, repack and install.

    Raises:
        InstallFailed: pip could not, or the wheel is another one.
    """
    with tempfile.TemporaryDirectory(prefix="stoker-smdebug-") as name:
        folder = Path(name)
        published = plan.wheel or _download(folder)
        try:
            wheel = repack(published, folder)
        except RepackFailed as error:
            raise InstallFailed(str(error)) from error
        _pip(make_install(plan, wheel), "smdebug was not installed")
    where = f"in {plan.target}" if plan.target else f"for {plan.python}"
    print(f"smdebug: {VERSION} is installed {where}")


def _download(folder: Path) -> Path:
    line = f"smdebug=={UPSTREAM} --hash=sha256:{UPSTREAM_SHA256}\n"
    (folder / "requirements.txt").write_text(line)
    _pip(make_download(folder), f"smdebug {UPSTREAM} could not be fetched")
    return next(folder.glob("smdebug-*.whl"))


def _pip(command: list[str], failure: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PIP_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise InstallFailed(
            f"{failure}: pip did not end in {_PIP_SECONDS} s", fix="check this machine's network"
        ) from error
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if "ERROR" in line or "error:" in line]
        lines = said or done.stderr.splitlines()[-3:]
        raise InstallFailed("\n  ".join([failure, *lines]), fix=make_hint(done.stderr))


def make_hint(said: str) -> str:
    """What to do when pip failed, from what it printed."""
    for text, fix in _HINTS:
        if text in said:
            return fix
    return (
        "check this machine's network and pip's settings (pip config list); without a network: "
        f"`pip download --no-deps smdebug=={UPSTREAM}` elsewhere, and give the file with --wheel"
    )

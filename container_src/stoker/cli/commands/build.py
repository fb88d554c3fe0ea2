"""`stoker build`: make the training image of one flavour."""

from __future__ import annotations

import argparse
import re
import shlex
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.request import getproxies

from stoker import __version__
from stoker.bus.progress import Progress
from stoker.machine.base_image import BasePlan, plan_base, provide_base, read_digest
from stoker.machine.checkout import (
    INSTALLED,
    find_repository,
    provide_context,
    read_revision,
    read_source_url,
)
from stoker.machine.docker import (
    Builder,
    find_builder,
    find_client,
    image_size_bytes,
    require_engine,
    run_live,
)
from stoker.machine.failures import BuildFailed
from stoker.machine.pip_settings import (
    PipSettings,
    make_pip_conf,
    read_pip_settings,
    serve_folders,
)
from stoker.machine.units import show_elapsed, show_size

# What a failed build prints, and what to do about it.
_HINTS = (
    (
        "No matching distribution found for torch==",
        "no package source of this machine offers that build of torch: name one in pip's own"
        " configuration (pip config set global.find-links FOLDER, or global.extra-index-url URL)",
    ),
    ("THESE PACKAGES DO NOT MATCH THE HASHES", "run `make lock`, and look at what it changes"),
    (
        "CERTIFICATE_VERIFY_FAILED",
        "a proxy reopens TLS here: pip config set global.cert CA_BUNDLE, and build again",
    ),
    ("No space left on device", "free disk space (docker system df; docker builder prune)"),
    ("Temporary failure", "no name resolution inside the build: check this machine's network"),
)

_LAID_OUT = Path("CONTEXT")


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildPlan:
    """Everything a build does, before it does any of it."""

    builder: Builder
    """The client that drives BuildKit."""

    base: BasePlan
    """The image to build on."""

    context: Path
    """The checkout, or the files inside an installed wheel."""

    flavor: str
    """The target of the Dockerfile."""

    tag: str
    """The name the image gets."""

    pip: PipSettings
    """Where packages come from."""

    build_args: tuple[str, ...]
    """NAME=VALUE, or NAME for one whose value the client takes from its environment."""

    labels: tuple[str, ...]
    """NAME=VALUE."""


def run(args: argparse.Namespace) -> int:
    """Make the plan; print it or carry it out."""
    plan = plan_build(args)
    print(render(plan), flush=True)
    if not args.dry_run:
        carry_out(plan)
    return 0


def plan_build(args: argparse.Namespace) -> BuildPlan:
    """Look at this machine and decide."""
    client = find_client()
    require_engine(client)
    context = find_repository(args.context)
    proxies = [f"{scheme}_proxy" for scheme in getproxies() if scheme in {"http", "https", "no"}]
    compiler = ["COMPILER=1"] if args.compiler else []
    labels = {"created": args.created, "source": read_source_url(context)}
    return BuildPlan(
        builder=find_builder(),
        base=plan_base(client, asked_for=args.base_image, repository=context),
        context=context,
        flavor=args.flavor,
        tag=args.tag or f"stoker:{args.flavor}",
        pip=read_pip_settings(),
        build_args=(
            f"VERSION={__version__}",
            f"REVISION={read_revision(context).label}",
            *compiler,
            *proxies,
        ),
        labels=tuple(f"org.opencontainers.image.{key}={v}" for key, v in labels.items() if v),
    )


def make_command(plan: BuildPlan, *, base: str, digest: str, secrets: Path) -> list[str]:
    """The build command: on `base` with that digest; `secrets` is the folder of pip.conf."""
    dockerfile = str(plan.context / "docker/Dockerfile")
    command = [*plan.builder.argv, "--progress=plain", "--file", dockerfile]
    command += ["--target", plan.flavor, "--tag", plan.tag]
    # Only the host's network reaches what is served on the host's loopback.
    command += ["--network=host"] if plan.pip.folders else []
    for value in (f"BASE_IMAGE={base}", *plan.build_args):
        command += ["--build-arg", value]
    base_digest = (f"org.opencontainers.image.base.digest={digest}",) if digest else ()
    for value in (*plan.labels, *base_digest):
        command += ["--label", value]
    command += ["--secret", f"id=pipconf,src={secrets / 'pip.conf'}"]
    if plan.pip.ca_bundle:
        command += ["--secret", f"id=ca,src={plan.pip.ca_bundle}"]
    return [*command, str(plan.context)]


def render(plan: BuildPlan) -> str:
    """The plan for people; no setting that may hold a token is printed."""
    pip = plan.pip
    lines = [
        f"build: {plan.tag} (target {plan.flavor})",
        f"build: base {plan.base.image}: {plan.base.reason}",
        f"build: with {plan.builder.name}",
    ]
    if plan.context == INSTALLED:
        lines += [f"build: from the files of this installation, laid out in {_LAID_OUT}"]
        plan = replace(plan, context=_LAID_OUT)
    lines += [f"build: serving wheels of {folder} to the build" for folder in pip.folders]
    lines += [f"build: left out, a build cannot see it: {url}" for url in pip.left_out]
    lines += [f"build: certificates of {pip.ca_bundle}, as a secret"] if pip.ca_bundle else []
    base = plan.base.image
    command = make_command(plan, base=base, digest=read_digest(base), secrets=Path("SECRETS"))
    steps = [step for step in (plan.base.pull, command) if step]
    return "\n".join([*lines, *(f"$ {shlex.join(step)}" for step in steps)])


def carry_out(plan: BuildPlan) -> None:
    """Build the image, showing the engine's output as it comes.

    Raises:
        BuildFailed: the engine's last lines have said why; the fix names known causes.
    """
    started = time.monotonic()
    base = provide_base(plan.base)
    with (
        serve_folders(plan.pip.folders) as served,
        tempfile.TemporaryDirectory(prefix="stoker-build-") as secrets,
        tempfile.TemporaryDirectory(prefix="stoker-context-") as scratch,
    ):
        conf = Path(secrets, "pip.conf")
        # Before it has content: an address of an index may hold a token.
        conf.touch(mode=0o600)
        conf.write_text(make_pip_conf(plan.pip, served=served))
        digest = read_digest(base)
        plan = replace(plan, context=provide_context(plan.context, Path(scratch)))
        command = make_command(plan, base=base, digest=digest, secrets=Path(secrets))
        finished = run_live(command, describe=BuildStatus().describe)
    if finished.code != 0:
        raise BuildFailed(
            f"{plan.tag} was not built: the builder ended with {finished.code}",
            fix=make_hint(finished.tail),
        )
    size_bytes = image_size_bytes(find_client(), plan.tag) or 0
    seconds = time.monotonic() - started
    print(f"build: {plan.tag} is ready: {show_size(size_bytes)}, {show_elapsed(seconds)}")


_STEP = re.compile(r"#\d+ (\[.+|exporting .+|sending .+)")
_TRANSFER = re.compile(
    r"#\d+ (sha256:\w{12}|transferring \w+)\S* ([\d.]+)([kMG]?)B(?: / ([\d.]+)([kMG]?)B)?"
)
_UNITS = {"": 1, "k": 1000, "M": 1000**2, "G": 1000**3}
_LONGEST_STEP = 50


class BuildStatus:
    """What BuildKit is doing, from its plain output: step, time, and bytes if it copies."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._step = "starting"
        self._transfer = ""
        self._progress: dict[str, tuple[Progress, int]] = {}

    def describe(self, line: str) -> str:
        """The line at the bottom after another line of output, or after a second without one."""
        if found := _STEP.match(line):
            self._step, self._began, self._transfer = found[1][:_LONGEST_STEP], self._clock(), ""
        elif found := _TRANSFER.match(line):
            self._count(found[1], *(found[group] or "" for group in range(2, 6)))
        parts = [f"» {self._step}", show_elapsed(self._clock() - self._began), self._transfer]
        return ", ".join(part for part in parts if part)

    def _count(self, what: str, done: str, unit: str, total: str, total_unit: str) -> None:
        done_bytes = round(float(done) * _UNITS[unit])
        if what not in self._progress:
            total_bytes = round(float(total or 0) * _UNITS[total_unit])
            progress = Progress(what, total_bytes, show=self._show, clock=self._clock)
            self._progress[what] = (progress, 0)
        progress, before_bytes = self._progress[what]
        self._progress[what] = (progress, done_bytes)
        progress.add(done_bytes - before_bytes)

    def _show(self, line: str) -> None:
        self._transfer = line


def make_hint(tail: str) -> str:
    """What to do about a failed build, from the last lines it printed."""
    known: Sequence[str] = [fix for text, fix in _HINTS if text in tail]
    return known[0] if known else "read the last lines above"

"""`stoker train`: run a training script on this machine as SageMaker would run it."""

from __future__ import annotations

import argparse
import re
import shlex
import signal
import subprocess
import time
from pathlib import Path

from stoker.contract.channels import is_channel_name
from stoker.contract.paths import Paths
from stoker.host.docker import ask
from stoker.host.engines import (
    Engine,
    choose_engine,
    link_channels,
    make_command,
    make_ownership_command,
)
from stoker.host.failures import UsageRefused
from stoker.host.job_folder import JobSpec, failure_reason, make_job_folder, pack_model

_JOBS = Path(".work/jobs")
_NAME = re.compile(r"[A-Za-z0-9](?:-?[A-Za-z0-9]){0,62}")  # as CreateTrainingJob has it


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command line."""
    parser = subparsers.add_parser("train", help="run a training script in the image, here")
    parser.add_argument("script", type=Path, help="the entry point, such as src/train.py")
    parser.add_argument("--source-dir", type=Path, help="folder of the code (default: script's)")
    parser.add_argument("--channel", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--param", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--image", default="stoker:cpu", metavar="IMG")
    parser.add_argument("--engine", choices=("auto", "docker", "process"), default="auto")
    parser.add_argument("--name", help="of the job (default: from the script and the time)")
    parser.add_argument("--dry-run", action="store_true", help="print the plan and stop")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Make the plan; print it or carry it out."""
    spec = make_spec(args)
    engine = choose_engine(args.engine, args.image)
    paths = Paths(root=str(_JOBS.absolute() / spec.name))
    command = make_command(engine, spec, paths, image=args.image)
    print(f"train: {spec.name}, engine: {engine.name} ({engine.reason})")
    print(f"$ {shlex.join(command)}", flush=True)
    if args.dry_run:
        return 0
    make_job_folder(spec, _JOBS.absolute())
    if engine.name == "process":
        link_channels(spec, paths)
    started = time.monotonic()
    code = _run_to_the_end(command)
    _take_ownership(engine, paths, image=args.image)
    return _report(paths, code, seconds=time.monotonic() - started)


def make_spec(args: argparse.Namespace) -> JobSpec:
    """Checks what the user said, all of it, before anything is made.

    Raises:
        UsageRefused: a file or folder is missing, or a pair is not NAME=VALUE.
    """
    source_dir = (args.source_dir or args.script.parent).absolute()
    script = args.script.absolute()
    if not script.is_file() or source_dir not in script.parents:
        raise UsageRefused(
            f"{args.script} is no file in {source_dir}", fix="name a script and its --source-dir"
        )
    channels = {name: Path(text).absolute() for name, text in _pairs(args.channel, "--channel")}
    for name, folder in channels.items():
        if not is_channel_name(name):
            raise UsageRefused(
                f"{name!r} is no channel name", fix="use 1 to 64 letters, digits, '.', '-' or '_'"
            )
        if not folder.is_dir():
            raise UsageRefused(
                f"channel {name}: {folder} is no folder", fix="pass --channel NAME=FOLDER"
            )
    return JobSpec(
        name=_job_name(args.name, script),
        source_dir=source_dir,
        entry_point=str(script.relative_to(source_dir)),
        channels=channels,
        params=dict(_pairs(args.param, "--param")),
    )


def _job_name(asked: str | None, script: Path) -> str:
    stem = re.sub(r"[^A-Za-z0-9]+", "-", script.stem).strip("-") or "job"
    name = asked or f"{stem[:40]}-{time.strftime('%Y%m%d-%H%M%S')}"
    if not _NAME.fullmatch(name):
        raise UsageRefused(
            f"{name!r} is no name for a job", fix="use up to 63 letters, digits and dashes"
        )
    if (_JOBS / name).exists():
        raise UsageRefused(
            f"there is a job {name} already: {_JOBS / name}", fix="choose another --name"
        )
    return name


def _pairs(texts: list[str], option: str) -> list[tuple[str, str]]:
    for text in texts:
        if "=" not in text:
            raise UsageRefused(f"{option} {text} is no NAME=VALUE", fix=f"{option} name=value")
    return [(name, value) for name, _, value in (text.partition("=") for text in texts)]


def _run_to_the_end(command: list[str]) -> int:
    """Runs the job in the foreground. Ctrl-C reaches it too; we wait for it to save and end."""
    with subprocess.Popen(command) as process:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            return process.wait()
        finally:
            signal.signal(signal.SIGINT, before)


def _take_ownership(engine: Engine, paths: Paths, *, image: str) -> None:
    command = make_ownership_command(engine, paths, image=image)
    if command and ask(command, timeout_seconds=120).code != 0:
        print(
            f"train: some files of {paths.root} belong to root: sudo chown -R $USER {paths.root}"
        )


def _report(paths: Paths, code: int, *, seconds: float) -> int:
    model = pack_model(paths)
    print(
        f"\ntrain: {'completed' if code == 0 else 'failed'} in {seconds:.0f} s, exit code {code}"
    )
    if code != 0:
        reason = failure_reason(paths) or "see the log above"
        print(f"  reason  {reason}".replace("\n", "\n          "))
    print(f"  model   {model or 'the script left nothing in SM_MODEL_DIR'}")
    print(f"  folder  {paths.root}")
    return 0 if code == 0 else 1

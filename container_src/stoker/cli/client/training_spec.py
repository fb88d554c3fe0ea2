"""What `stoker train` was asked for, checked as a whole before anything is made."""

from __future__ import annotations

import argparse
import re
import shlex
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from stoker.cli.client.submission import DAY_SECONDS, INSTANCE_TYPE, VOLUME_GB, TrainingSpec
from stoker.cli.client.train_defaults import with_defaults
from stoker.contract.channels import is_channel_name
from stoker.contract.code import CODE_CHANNEL
from stoker.contract.hyperparameters import RESERVED_PREFIX, SETTINGS, TORCHRUN_SWITCH
from stoker.machine.checkout import git_environment
from stoker.machine.failures import UsageRefused
from stoker.machine.units import read_seconds
from stoker.platform.model.request import parse_folder
from stoker.platform.model.request_rules import MOST_HOSTS

_NAME = re.compile(r"[A-Za-z0-9](?:-?[A-Za-z0-9]){0,62}")  # as CreateTrainingJob has it
_LONGEST_STEM = 40  # with a date behind it, a name fits the service's 63 characters
_MOST_RUN_SECONDS = 28 * DAY_SECONDS  # as CreateTrainingJob has it
_KEEP_ALIVE_SECONDS = 600  # the next try of a script follows within minutes
_MOST_KEEP_ALIVE_SECONDS = 21_600  # as CreateTrainingJob has it
DEFAULT_IMAGE = "stoker:cpu"
_LONGEST_PARAM_NAME, _LONGEST_PARAM_VALUE = 256, 2500  # as CreateTrainingJob has them
_LONGEST_VARIABLE, _LONGEST_METRIC_NAME, _LONGEST_REGEX = 512, 255, 500  # likewise
_SET_BY_US = {
    "sagemaker_program": "name the script: stoker train SCRIPT",
    "sagemaker_submit_directory": "name the folder: --source-dir DIR",
    "sagemaker_job_name": "name the job: --name NAME",
    "_tuning_objective_metric": "choose another name: only tuning jobs set it",
}


def make_spec(args: argparse.Namespace) -> TrainingSpec:
    """Check what the user said.

    Raises:
        UsageRefused: a file or folder is missing, a pair is not NAME=VALUE, a name is not valid.
    """
    source_dir = (args.source_dir or args.script.parent).absolute()
    script = args.script.absolute()
    _require_script(script, source_dir)
    # Before the options are checked: what stoker.toml says is checked in the same way.
    args = with_defaults(args, source_dir)
    instances = args.instances if args.instances is not None else 1
    for option, number in (("--instances", instances), ("--volume", args.volume)):
        if number is not None and number < 1:
            raise UsageRefused(f"{option} {number}", fix="at least 1")
    if instances > MOST_HOSTS and _is_here(args):
        raise UsageRefused(f"--instances {instances}", fix=f"use 1 to {MOST_HOSTS}")
    return TrainingSpec(
        name=make_job_name(args.name, script.stem),
        image=args.image or DEFAULT_IMAGE,
        source_dir=source_dir,
        is_large_source_allowed=args.large_source,
        entry_point=str(script.relative_to(source_dir)),
        channels=_channels(args.channel),
        params=_params(args),
        metrics=_metrics(args.metric),
        environ={**git_environment(source_dir), **read_environ(args.env)},
        tags=dict(_pairs(args.tag, "--tag")),
        instances=instances,
        instance_type=args.instance_type or INSTANCE_TYPE,
        volume_gb=args.volume or VOLUME_GB,
        max_run_seconds=read_max_run(args.max_run) or DAY_SECONDS,
        keep_alive_seconds=_keep_alive(args, instances),
        spot=_spot(args.spot, instances),
    )


def _is_here(args: argparse.Namespace) -> bool:
    return getattr(args, "on", "local") != "sagemaker"


def _keep_alive(args: argparse.Namespace, instances: int) -> int:
    """By default 10 minutes, for jobs whose next one it can serve: not spot, one host."""
    text: str | None = getattr(args, "keep_alive", "0")  # not an option of other verbs
    if text is None and not _is_here(args):
        return 0  # there it costs as much as training
    if text is None:
        return _KEEP_ALIVE_SECONDS if instances == 1 and not args.spot else 0
    seconds = 0.0 if text.strip() == "0" else read_seconds(text)
    if not 0 <= seconds <= _MOST_KEEP_ALIVE_SECONDS:
        raise UsageRefused(
            f"--keep-alive {text}", fix=f"at most {_MOST_KEEP_ALIVE_SECONDS // 3600}h, or 0"
        )
    return round(seconds)


def _require_script(script: Path, source_dir: Path) -> None:
    if script.is_dir():
        found = sorted(script.glob("*.py"))
        raise UsageRefused(
            f"{script} is a folder, but a script is expected",
            fix=f"name the script: stoker train {shlex.quote(str(found[0]))}"
            if found
            else "name the script in it: stoker train FOLDER/train.py",
        )
    if not script.exists():
        names = [file.name for file in script.parent.glob("*") if file.is_file()]
        import difflib

        near = difflib.get_close_matches(script.name, names, n=1)
        raise UsageRefused(
            f"there is no file {script}",
            fix=f"did you mean {script.with_name(near[0])}?" if near else "name a script",
        )
    if not script.is_file():
        raise UsageRefused(f"{script} is not a regular file", fix="name a script")
    if source_dir not in script.parents:
        raise UsageRefused(
            f"the script {script} is not in the source folder {source_dir}",
            fix="name a --source-dir that contains the script",
        )


def _params(args: argparse.Namespace) -> dict[str, str]:
    """Those of --param, of the arguments behind `--`, and what --torchrun stands for."""
    of_script = read_script_arguments(args.script_arguments)
    for name, value in of_script.items():
        _require_param(name, value)
    return {
        **read_params(args.param),
        **of_script,
        **({TORCHRUN_SWITCH: "true"} if args.torchrun else {}),
    }


def read_params(texts: list[str]) -> dict[str, str]:
    """The hyperparameters of --param.

    Raises:
        UsageRefused: one is not NAME=VALUE, or its name is not valid.
    """
    params = dict(_pairs(texts, "--param"))
    for name, value in params.items():
        _require_param(name, value)
    return params


def read_script_arguments(words: Sequence[str]) -> dict[str, str]:
    """`--lr 0.1 --epochs=3` as hyperparameters, which reach the script as the same words.

    Raises:
        UsageRefused: a word is not a name with its value: a job can carry nothing else.
    """
    params: dict[str, str] = {}
    left = deque(words)
    while left:
        name, is_joined, value = left.popleft().partition("=")
        if not re.fullmatch(r"--?[^-\s].*", name):
            raise UsageRefused(
                f"{name!r} behind -- is not --NAME VALUE",
                fix="a job passes pairs only: --NAME VALUE, or one value in quotes: --NAME 'A B'",
            )
        if not is_joined:
            # A letter behind the dash: `-0.5` is a value.
            if not left or re.match(r"--?[A-Za-z]", left[0]):
                raise UsageRefused(
                    f"{name} behind -- has no value: a job passes pairs of name and value only",
                    fix=f"write {name} true, and read it as a value in the script",
                )
            value = left.popleft()
        params[name.lstrip("-")] = value
    return params


def _require_param(name: str, value: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_][\w.:/-]*", name) or len(name) > _LONGEST_PARAM_NAME:
        plain = re.sub(r"[^\w.:/-]+", "_", name).strip("_-") or "name"
        raise UsageRefused(
            f"{name!r} is not a valid parameter name: the script gets it as --{name}",
            fix=f"use letters, digits, '_', '-' or '.': {plain[:_LONGEST_PARAM_NAME]}={value:.40}",
        )
    _require_short(f"the value of the parameter {name}", value, _LONGEST_PARAM_VALUE)
    if name in _SET_BY_US:
        raise UsageRefused(f"{name} is set by `stoker train`", fix=_SET_BY_US[name])
    if name.startswith(RESERVED_PREFIX) and name not in SETTINGS:
        import difflib

        near = difflib.get_close_matches(name, SETTINGS, n=1, cutoff=0.3)
        raise UsageRefused(
            f"{name} is not a setting of the launcher, and the script never sees a name with "
            f"{RESERVED_PREFIX}",
            fix=f"did you mean {near[0]}?" if near else "choose another name",
        )


def read_max_run(text: str | None) -> int | None:
    """The whole seconds of --max-run, None if it is left out.

    Raises:
        UsageRefused: it is not a duration that the service accepts.
    """
    if text is None:
        return None
    seconds = round(read_seconds(text))
    if not 1 <= seconds <= _MOST_RUN_SECONDS:
        raise UsageRefused(f"--max-run {text}", fix="write 1s to 28d, such as 30m or 2h")
    return seconds


def _require_short(what: str, text: str, most: int) -> None:
    if len(text) > most:
        raise UsageRefused(
            f"{what} has {len(text)} characters, but SageMaker accepts {most}",
            fix="shorten it, or put it into a file of a channel or of the source folder",
        )


def _spot(spec: str | None, instances: int) -> str | None:
    if spec is not None:
        # Only here: every start of the command would pay for it.
        from stoker.platform.jobs.spot import SpotInvalid, make_schedule

        try:
            make_schedule(spec, instances=instances)
        except SpotInvalid as error:
            raise UsageRefused(f"--spot {spec}: {error.message}", fix=error.fix) from error
    return spec


def _channels(texts: list[str]) -> dict[str, Path | str]:
    channels: dict[str, Path | str] = {}
    for name, text in _pairs(texts, "--channel"):
        if not is_channel_name(name):
            raise UsageRefused(
                f"{name!r} is not a valid channel name",
                fix="use 1 to 64 letters, digits, '.', '-' or '_'",
            )
        if name == CODE_CHANNEL:
            raise UsageRefused(
                f"the channel {CODE_CHANNEL!r} carries your script", fix="choose another name"
            )
        place = text if text.startswith("s3://") else _folder(text)
        if isinstance(place, Path) and not place.is_dir():
            raise UsageRefused(
                f"channel {name}: {place} is not a folder",
                fix="pass --channel NAME=FOLDER or --channel NAME=s3://bucket/prefix",
            )
        if isinstance(place, Path) and not any(place.iterdir()):
            raise UsageRefused(f"channel {name}: {place} is empty", fix="put a file into it")
        channels[name] = place
    return channels


def _folder(text: str) -> Path:
    # `~` is left by the shell behind NAME=.
    return parse_folder(text) or Path(text).expanduser().resolve()


def _metrics(texts: list[str]) -> dict[str, str]:
    metrics = dict(_pairs(texts, "--metric"))
    for name, regex in metrics.items():
        _require_short("the name of a metric", name, _LONGEST_METRIC_NAME)
        _require_short(f"the regular expression of the metric {name}", regex, _LONGEST_REGEX)
        try:
            groups = re.compile(regex).groups
        except re.error as error:
            raise UsageRefused(
                f"metric {name}: {regex}: {error}", fix="fix the regular expression"
            ) from error
        if groups < 1:
            raise UsageRefused(
                f"metric {name}: {regex} has no group",
                fix="put parentheses around the number: 'loss=([0-9.]+)'",
            )
    return metrics


def make_job_name(asked: str | None, base: str) -> str:
    """The name asked for, or one of the base and the time.

    Raises:
        UsageRefused: the service would not accept it.
    """
    stem = re.sub(r"[^A-Za-z0-9]+", "-", base)[:_LONGEST_STEM].strip("-") or "job"
    # With milliseconds: two jobs may be submitted in the same second.
    seconds, milliseconds = divmod(time.time_ns() // 1_000_000, 1000)
    moment = time.strftime("%Y%m%d-%H%M%S", time.localtime(seconds))
    name = asked if asked is not None else f"{stem}-{moment}-{milliseconds:03}"
    if not _NAME.fullmatch(name):
        raise UsageRefused(
            f"{name!r} is not a valid job name", fix="use up to 63 letters, digits and dashes"
        )
    return name


def read_environ(texts: list[str]) -> dict[str, str]:
    """The variables of --env.

    Raises:
        UsageRefused: one is not NAME=VALUE, or the service would not accept it.
    """
    environ = dict(_pairs(texts, "--env"))
    for name, value in environ.items():
        _require_short(f"the value of the variable {name}", value, _LONGEST_VARIABLE)
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise UsageRefused(
                f"{name!r} is not a valid name of a variable",
                fix="use letters, digits and '_', and begin with a letter or '_'",
            )
    return environ


def _pairs(texts: list[str], option: str) -> list[tuple[str, str]]:
    for text in texts:
        if "=" not in text:
            raise UsageRefused(f"{option} {text} is not NAME=VALUE", fix=f"{option} name=value")
    pairs = [(name, value) for name, _, value in (text.partition("=") for text in texts)]
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise UsageRefused(f"{option} names {name} more than once", fix="name it once")
    return pairs

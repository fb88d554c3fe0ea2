"""What starting the command line loads: help and verbs that call no service start at once."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from stoker.cli.arguments.tensors import MODES as MODES_OF_THE_OPTION
from stoker.cli.main import make_parser
from stoker.debugging.step_tensors import MODES

# Each takes longer than all of argparse.
HEAVY = {"asyncio", "boto3", "botocore", "dataclasses", "numpy", "torch", "traceback"}
SERVICES = {"aiohttp", "boto3", "botocore", "numpy", "torch"}
VERBS = sorted(make_parser()._subparsers._group_actions[0].choices)
SPOT = ["--mean-time-between", "2", "--step-time", "1", "--steps", "9", "--save-cost", "1"]


def loaded(*arguments, cwd):
    """The modules that one command loads."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "stoker", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    modules = set(re.findall(r"\| +([\w.]+)$", done.stderr, re.MULTILINE))
    assert "argparse" in modules
    return modules


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_loads_argparse_and_little_else(verb, tmp_path):
    modules = loaded(*([verb] if verb else []), "--help", cwd=tmp_path)
    assert not modules & HEAVY


@pytest.mark.parametrize(
    "arguments",
    [
        ["metric-definitions", "train/loss"],
        ["simulate-spot", *SPOT, "--runs", "3"],
        ["checkpoints", "ls", "."],
        ["rules", "ls"],
        ["rules", "explain", "AllZero"],
        ["train", "train.py", "--dry-run", "--engine", "process"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_verbs_that_call_no_service_load_no_client_of_one(arguments, tmp_path):
    (tmp_path / "train.py").write_text("print('trained')")
    assert not loaded(*arguments, cwd=tmp_path) & SERVICES


@pytest.mark.parametrize(
    "arguments", [["metric-definitions", "loss"], ["rules", "ls"], ["rules", "explain", "AllZero"]]
)
def test_verbs_that_only_print_load_no_network_at_all(arguments, tmp_path):
    assert not loaded(*arguments, cwd=tmp_path) & {"http.client", "socket", "ssl"}


def test_every_verb_has_a_function_for_each_of_its_own_verbs():
    for verb in VERBS:
        parser = make_parser()._subparsers._group_actions[0].choices[verb]
        with pytest.raises(SystemExit):
            parser.parse_known_args(["--help"])
        command = __import__(f"stoker.cli.commands.{verb.replace('-', '_')}", fromlist=["run"])
        assert all(callable(getattr(command, name)) for name in functions(parser))


def functions(parser):
    """The functions that a verb's parser, or those of its own verbs, name."""
    if parser._subparsers is None:
        return [parser.get_default("run")]
    below = parser._subparsers._group_actions[0].choices.values()
    return [name for each in below for name in functions(each)]


def test_the_modes_to_choose_from_are_the_saved_ones():
    assert {mode.upper() for mode in MODES_OF_THE_OPTION} == set(MODES)

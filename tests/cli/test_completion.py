"""`stoker completion`: the scripts that bash and fish read."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import select
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.cli import arguments
from stoker.cli.commands.completion import render_fish, walk
from stoker.cli.main import main, make_parser

DEADLINE_SECONDS = 60
EXAMPLES = Path(arguments.__file__).with_name("examples.txt").read_text().splitlines()
COMPLETE = """
eval "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
_stoker
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script():
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(["completion", "bash"]) == 0
    return printed.getvalue()


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (["tr"], {"train"}),
        (["local", "d"], {"down"}),
        (["--debug", "local", "d"], {"down"}),
        (["train", "--engine", ""], {"auto", "docker", "process"}),
        (["train", "--spo"], {"--spot"}),
        (["local", "prune", "--old"], {"--older"}),
        (["completion", "f"], {"fish"}),
    ],
)
def test_bash_completes_verbs_options_and_choices(script, typed, expected):
    done = subprocess.run(
        ["bash", "-c", COMPLETE, "bash", script, "stoker", *typed],
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) == expected


SHELLS = {
    "bash": ("--norc", "--noprofile", "-i"),
    "zsh": ("-f", "-i"),
    "fish": ("--no-config", "-i"),
}


class Shell:
    """An interactive shell on a terminal of its own, which has read its completion."""

    def __init__(self, name, folder):
        if not shutil.which(name):
            pytest.skip(f"{name} is not installed")
        done = subprocess.run(
            [sys.executable, "-m", "stoker.cli.main", "completion", name],
            capture_output=True,
            text=True,
            check=True,
        )
        (folder / "completion").write_text(done.stdout)
        bin_folder = folder / "bin"
        bin_folder.mkdir()
        (bin_folder / "stoker").write_text('#!/bin/sh\necho "ran <$*>"\n')
        (bin_folder / "stoker").chmod(0o755)
        self.terminal, secondary = pty.openpty()
        environ = {"HOME": str(folder), "TERM": "dumb", "PATH": f"{bin_folder}:/usr/bin:/bin"}
        self.process = subprocess.Popen(
            ["setsid", "--ctty", name, *SHELLS[name]],  # a shell needs a terminal of its own
            cwd=folder,
            env=environ,
            stdin=secondary,
            stdout=secondary,
            stderr=secondary,
        )
        os.close(secondary)
        self.type("source ./completion; echo re''ady\n")
        self.read_until("ready")

    def type(self, text):
        os.write(self.terminal, text.encode())

    def read_until(self, wanted):
        seen = ""
        while wanted not in seen:
            readable, _, _ = select.select([self.terminal], [], [], DEADLINE_SECONDS)
            assert readable, f"{wanted!r} never came: {seen}"
            seen += os.read(self.terminal, 65536).decode(errors="replace")
        return seen

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.terminal)


@pytest.mark.parametrize("name", SHELLS)
@pytest.mark.parametrize(
    ("typed", "run"),
    [
        ("stoker tra", "train"),
        ("stoker train --on sagem", "train --on sagemaker"),
        ("stoker local do", "local down"),
        ("stoker train src/tr", "train src/train.py"),
    ],
)
def test_tab_completes_in_a_real_shell(tmp_path, name, typed, run):
    (tmp_path / "src").mkdir()
    (tmp_path / "src/train.py").touch()
    shell = Shell(name, tmp_path)
    try:
        shell.type(f"{typed}\t\n")
        assert f"ran <{run}>" in shell.read_until(">\r\n")
    finally:
        shell.close()


def test_fish_has_every_verb_with_its_help_and_every_option():
    commands = list(walk(make_parser(), ()))
    lines = render_fish(commands).splitlines()
    assert "complete -c stoker -n '__stoker_at ' -f -a local" in "\n".join(lines)
    for command in commands:
        start = f"complete -c stoker -n '__stoker_at {' '.join(command.path)}'"
        for option in command.options:
            assert any(line.startswith(f"{start} -l {option[2:]} ") for line in lines), option


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["trian"], "did you mean train?"),
        (["train", "train.py", "--parm", "a=1"], "did you mean --param?"),
        (["local", "stauts"], "did you mean status?"),
        (["local", "up", "--detatch"], "did you mean --detach?"),
        (["completion", "bsh"], "did you mean bash?"),
    ],
)
def test_a_misspelt_verb_option_or_choice_has_its_near_miss(words, near, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    assert near in capsys.readouterr().err


def test_every_command_has_examples_in_its_help(capsys):
    for command in walk(make_parser(), ()):
        with pytest.raises(SystemExit) as stopped:
            main([*command.path, "--help"])
        assert stopped.value.code == 0
        _, found, examples = capsys.readouterr().out.partition("examples:\n")
        assert found, command.path
        assert f"  stoker {' '.join(command.path)}" in examples


def test_every_option_has_its_help():
    commands = list(walk(make_parser(), ()))
    assert not [
        (each.path, name) for each in commands for name in each.options if not each.options[name]
    ]


@pytest.mark.parametrize("example", [line for line in EXAMPLES if line])
def test_an_example_of_the_help_is_accepted(example):
    program, *words = shlex.split(example)
    assert program == "stoker"
    make_parser().parse_args(words)

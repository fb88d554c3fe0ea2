"""`stoker completion`: the scripts that bash and fish read."""

from __future__ import annotations

import contextlib
import io
import subprocess

import pytest

from stoker.cli.commands.completion import render_fish, walk
from stoker.cli.main import main, make_parser

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


def test_a_word_that_is_not_a_verb_is_completed_as_a_file(script, tmp_path):
    (tmp_path / "train.py").touch()
    done = subprocess.run(
        ["bash", "-c", COMPLETE, "bash", script, "stoker", "train", "tra"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert done.stdout.split() == ["train.py"]


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

"""`stoker completion`: what a shell needs to complete verbs, options and their choices.

The script is made from the parsers, so that it has what they have, and completes without starting
Python at every press of Tab.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stoker.cli.main import make_parser
from stoker.cli.parser import VerbParser

_TEMPLATES = Path(__file__).parents[1] / "shell"
# bashcompinit needs compinit, which many a ~/.zshrc has run already.
_ZSH = """\
(( $+functions[compdef] )) || { autoload -U compinit && compinit; }
autoload -U +X bashcompinit && bashcompinit
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandWords:
    """What may follow one command."""

    path: tuple[str, ...]
    """The command without `stoker`: ("local", "up")."""

    verbs: dict[str, str]
    """Its verbs with their help."""

    options: dict[str, str]
    """Its options with their help."""

    choices: dict[str, tuple[str, ...]]
    """Option, or "" for the positional argument → the words it accepts."""


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    commands = list(walk(make_parser(), ()))
    render = render_fish if args.shell == "fish" else render_bash
    print((_ZSH if args.shell == "zsh" else "") + render(commands), end="")
    return 0


def walk(parser: argparse.ArgumentParser, path: tuple[str, ...]) -> Iterator[CommandWords]:
    """The commands of a parser, itself first."""
    if isinstance(parser, VerbParser):
        parser.load()
    below: dict[str, argparse.ArgumentParser] = {}
    verbs: dict[str, str] = {}
    options: dict[str, str] = {}
    choices: dict[str, tuple[str, ...]] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            below = dict(action.choices)
            # argparse has no public way to ask a parser for its verbs and options.
            verbs = {part.dest: part.help or "" for part in action._choices_actions}
            continue
        names = [name for name in action.option_strings if name.startswith("--")]
        options |= dict.fromkeys(names, "" if action.help is None else action.help)
        if action.choices:
            choices |= dict.fromkeys(names or [""], tuple(map(str, action.choices)))
    yield CommandWords(path=path, verbs=verbs, options=options, choices=choices)
    for verb, child in below.items():
        yield from walk(child, (*path, verb))


def render_bash(commands: list[CommandWords]) -> str:
    """For bash, and for zsh through its bashcompinit."""
    rows, known = [], []
    for command in commands:
        path = " ".join(command.path)
        rows += [
            f"    '{path}|{option}') words='{' '.join(words)}';;"
            for option, words in command.choices.items()
            if option
        ]
        words = [*command.verbs, *command.choices.get("", ()), *command.options]
        rows.append(f"    '{path}|'*) words='{' '.join(words)}';;")
        known += [path] if path else []
    template = (_TEMPLATES / "completion.bash").read_text()
    paths = "|".join(f"'{path}'" for path in known)
    return template.replace("@PATHS@", paths).replace("    @ROWS@", "\n".join(rows))


def render_fish(commands: list[CommandWords]) -> str:
    """For fish, which also shows what each word does."""
    lines = (_TEMPLATES / "completion.fish").read_text().splitlines()
    for command in commands:
        start = f"complete -c stoker -n '__stoker_at {' '.join(command.path)}'"
        for verb, about in command.verbs.items():
            lines.append(f"{start} -f -a {verb} -d {_quote(about)}")
        if "" in command.choices:
            lines.append(f"{start} -f -a '{' '.join(command.choices[''])}'")
        for option, about in command.options.items():
            words = command.choices.get(option)
            value = f" -x -a '{' '.join(words)}'" if words else ""
            lines.append(f"{start} -l {option[2:]}{value} -d {_quote(about)}")
    return "\n".join(lines) + "\n"


def _quote(text: str) -> str:
    return "'" + " ".join(text.split()).replace("\\", "\\\\").replace("'", "\\'") + "'"

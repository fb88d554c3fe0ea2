"""The parser of the command line: verbs that load on use, examples, near misses."""

from __future__ import annotations

import argparse
import os
import re
import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, NoReturn

_COLUMNS = 80


class Parser(argparse.ArgumentParser):
    """argparse's own, with help that keeps its lines and mistakes that name the near miss."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - argparse's own
        super().__init__(**{"formatter_class": _Formatter, **options})

    def error(self, message: str) -> NoReturn:
        """Usage, the mistake, and what was probably meant; exit code 2."""
        near = _find_near_misses(message, self._option_string_actions)
        super().error(message + "".join(f"\n  did you mean {name}?" for name in near))

    def format_help(self) -> str:
        """argparse's own, with the examples of this command."""
        found = [line for line in _read_examples() if f"{line} ".startswith(f"{self.prog} ")]
        if not found or self.prog == "stoker":  # which has its own choice of them
            return super().format_help()
        return "\n  ".join([f"{super().format_help()}\nexamples:", *found]) + "\n"


def _read_examples() -> list[str]:
    file = os.path.join(os.path.dirname(__file__), "arguments/examples.txt")
    with open(file, encoding="utf-8") as lines:
        return [line.strip() for line in lines if line.strip()]


class VerbParser(Parser):
    """Learns its arguments when its verb is used, so that no other verb waits for them."""

    def __init__(self, *, verb: str = "", **options: Any) -> None:  # noqa: ANN401 - argparse's own
        super().__init__(**options)
        self._verb = verb

    def load(self) -> None:
        """Add the arguments of the verb."""
        if self._verb:  # verbs of verbs have none: their parent has filled them
            arguments = import_module(f"stoker.cli.arguments.{module_name(self._verb)}")
            self._verb = ""
            self.set_defaults(run="run")
            arguments.add_arguments(self)

    def parse_known_args(self, words: Any, *args: Any, **options: Any) -> Any:  # type: ignore[override]  # noqa: ANN401 - as above
        """As argparse's; what follows `--` is the script's where a verb has a script."""
        self.load()
        if self.get_default("script_arguments") is not None and "--" in words:
            # Not a positional: argparse would accept it only right behind the script.
            at = words.index("--")
            self.set_defaults(script_arguments=words[at + 1 :])
            words = words[:at]
        known, unknown = super().parse_known_args(words, *args, **options)
        if unknown:  # here, not in `stoker` itself: this parser knows the options and the usage
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return known, unknown


def module_name(verb: str) -> str:
    """The module of a verb, in `cli.arguments` and `cli.commands`."""
    return verb.replace("-", "_")


def _find_near_misses(message: str, options: Iterable[str]) -> list[str]:
    """What the words that argparse does not know are close to."""
    from difflib import get_close_matches  # only a mistake needs it

    # argparse's own words; newer versions of Python put no quotes around the choices.
    if found := re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)$", message):
        known = re.findall(r"[\w./+-]+", found[2])
        return get_close_matches(found[1], known, n=1)
    if found := re.search(r"unrecognized arguments: (.*)$", message):
        unknown = [word.partition("=")[0] for word in found[1].split() if word.startswith("--")]
        return [near for word in unknown for near in get_close_matches(word, options, n=1)]
    return []


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """argparse's own, told the width: to find it, argparse loads shutil with all compressors."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_terminal_width() - 2)


def _terminal_width() -> int:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or _COLUMNS
    except (OSError, ValueError, AttributeError):  # no terminal, or a stdout of a notebook
        return _COLUMNS

"""The `[train]` table of stoker.toml: what `stoker train` takes where the command line is silent.

[train]
image = "stoker:cpu"
channels = { train = "../data", test = "s3://bucket/test" }   # folders from the file's own
parameters = { lr = 0.01, epochs = 5 }
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stoker.contract.files import read_regular
from stoker.machine.failures import UsageRefused

FILE_NAME = "stoker.toml"
# Key → the option of the command line, as argparse names it.
_PAIRS = {
    "channels": "channel",
    "environment": "env",
    "metrics": "metric",
    "parameters": "param",
    "tags": "tag",
}
_TEXTS = {"image": "image", "instance_type": "instance_type", "max_run": "max_run"}
_TEXTS |= {"keep_alive": "keep_alive"}
# Of jobs on SageMaker; a job here does not read them.
_TEXTS |= {name: name for name in ("region", "role", "output", "repository", "queue", "max_wait")}
_TEXTS |= {"kms_key": "kms_key", "volume_kms_key": "volume_kms_key"}
_LISTS = {"subnets": "subnet", "security_groups": "security_group"}
_FLAGS = {"use_spot": "use_spot"}
_NUMBERS = {"instances": "instances", "volume": "volume"}
_KEYS = {**_PAIRS, **_TEXTS, **_NUMBERS, **_LISTS, **_FLAGS}


def with_defaults(args: argparse.Namespace, source_dir: Path) -> argparse.Namespace:
    """The arguments, completed by the first `[train]` in the source folder or this folder.

    Raises:
        UsageRefused: the file cannot be read, or has mistakes; all of them are named.
    """
    for folder in dict.fromkeys((source_dir, Path.cwd())):
        table = _read_table(folder / FILE_NAME)
        if table is not None:
            return _complete(args, table, folder)
    return args


def _read_table(file: Path) -> Mapping[str, Any] | None:
    try:
        text = read_regular(str(file), follow_links=True).decode()
        import tomllib  # most projects have no such file, and every start would pay for it

        content = tomllib.loads(text)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UsageRefused(
            f"{file} cannot be read: {error.strerror}",
            fix="make it a file that this user may read",
        ) from error
    except ValueError as error:
        raise UsageRefused(f"{file} cannot be read: {error}", fix="write TOML in UTF-8") from error
    table = content.get("train")
    if table is None:
        return None
    problems = list(_find_problems(table))
    if problems:
        raise UsageRefused(
            f"{file}, [train]: {'; '.join(problems)}",
            fix='write them as in channels = { train = "data" } and parameters = { lr = 0.1 }',
        )
    return dict(table)


def _find_problems(table: object) -> Iterator[str]:
    if not isinstance(table, dict):
        yield f"is {table!r:.60}, but a table is expected"
        return
    for key, value in table.items():
        if key not in _KEYS:
            import difflib

            near = difflib.get_close_matches(key, _KEYS, n=1)
            known = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(_KEYS))}"
            yield f"{key!r} is not a key; {known}"
        elif key in _PAIRS:
            yield from _find_pair_problems(key, value)
        # `type`, not isinstance: True is an int, and `instances = true` is a mistake.
        elif key in _NUMBERS and type(value) is not int:
            yield f"{key} is {value!r:.60}, but a whole number is expected"
        elif key in _FLAGS and type(value) is not bool:
            yield f"{key} is {value!r:.60}, but true or false is expected"
        elif key in _LISTS and not _is_list_of_texts(value):
            yield f"{key} is {value!r:.60}, but a list of texts is expected"
        elif key in _TEXTS and not isinstance(value, str):
            yield f"{key} is {value!r:.60}, but a text is expected"


def _find_pair_problems(key: str, value: object) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{key} is {value!r:.60}, but a table is expected: {key} = {{ name = value }}"
        return
    for name, part in value.items():
        if "=" in name:
            yield f"{key}: {name!r} is not a valid name: it contains '='"
        if not isinstance(part, str | bool | int | float):
            yield f"{key}.{name} is {part!r:.60}, but a text, a number or true/false is expected"


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


def _complete(
    args: argparse.Namespace, table: Mapping[str, Any], folder: Path
) -> argparse.Namespace:
    completed = argparse.Namespace(**vars(args))
    for key, option in _KEYS.items():
        if key not in table:
            continue
        given: Any = getattr(args, option, [] if key in _PAIRS else None)
        if key in _PAIRS:
            # Not only overruled: a folder that is not there must not matter then.
            named = {text.partition("=")[0] for text in given}
            named |= _searched(args) if key == "parameters" else set()
            pairs = {n: v for n, v in table[key].items() if n not in named}
            given = [*(f"{n}={_as_text(v, key, folder)}" for n, v in pairs.items()), *given]
        # What argparse leaves where the command line is silent.
        elif given in (None, False, []):
            given = table[key]
        setattr(completed, option, given)
    return completed


def _searched(args: argparse.Namespace) -> set[str]:
    """The hyperparameters that `stoker tune` varies: stoker.toml has no fixed value for them."""
    texts = [*getattr(args, "range", []), *getattr(args, "choice", [])]
    return {text.partition("=")[0] for text in texts}


def _as_text(value: str | bool | float, key: str, folder: Path) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if key == "channels" and "://" not in str(value):
        return str(folder / Path(str(value)).expanduser())
    return str(value)

"""The file that says what each tensor is: what names alone do not tell."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from stoker.debugging.description import Description
from stoker.debugging.tensors.layout import NOT_WHOLE, descriptions_file
from stoker.debugging.tensors.step_file import write_whole

_VERSION = 1


def write_descriptions(folder: str, worker: str, descriptions: Iterable[Description]) -> None:
    """Writes all descriptions of one worker, in place of those it wrote before.

    Raises:
        OSError: it cannot be written.
    """
    tensors = [description.changed_values() for description in descriptions]
    content = json.dumps({"version": _VERSION, "tensors": tensors})
    write_whole(f"{folder}/{descriptions_file(worker)}", content)


def parse_descriptions(content: str) -> list[Description]:
    """The descriptions of a file; what a newer version adds is passed over.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: it is no such file.
    """
    return [_from_json(tensor) for tensor in json.loads(content)["tensors"]]


def read_descriptions(folder: str, worker: str) -> list[Description]:
    """Those that a worker has written; none where it did not, or not as a whole."""
    try:
        with open(f"{folder}/{descriptions_file(worker)}", encoding="utf-8") as file:
            return parse_descriptions(file.read())
    except (OSError, *NOT_WHOLE):
        return []


def _from_json(tensor: Mapping[str, Any]) -> Description:
    known = {name: value for name, value in tensor.items() if name in Description._fields}
    for name, value in known.items():
        if not isinstance(value, type(getattr(Description, name, ""))):
            raise TypeError(f"{name} of a tensor is {value!r:.80}")
    return Description(**known)

"""findings.jsonl: one finding a line, as it is made."""

from __future__ import annotations

import json
import os
from typing import Any

from stoker.contract.files import now_text, open_regular, read_regular
from stoker.debugging.evaluate.watched import Fired
from stoker.debugging.rule import Finding


class FindingsFile:
    """Appends whole lines. Where it cannot (a full disk), the log still has them."""

    def __init__(self, path: str) -> None:
        self._path = path

    def append(self, fired: Fired) -> str:
        """Returns why it could not be written; empty if it was."""
        fields = {
            "time": now_text(),
            "rule": fired.rule,
            "step": fired.step,
            "mode": fired.mode,
            "mode_step": fired.mode_step,
            **fired.finding.to_json(),
        }
        line = (json.dumps(fields, default=float) + "\n").encode()
        try:
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            descriptor = open_regular(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            try:
                os.write(descriptor, line)
            finally:
                os.close(descriptor)
        except OSError as error:
            return f"{self._path} cannot be written: {error.strerror}"
        return ""


def read_findings(path: str) -> list[Fired]:
    """All findings of the file, in order; a line that was cut off is left out."""
    try:
        lines = read_regular(path).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            found.append(_parse(json.loads(line)))
        except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
            continue
    return found


def _parse(fields: dict[str, Any]) -> Fired:
    finding = Finding(
        message=str(fields["message"]),
        tensor=str(fields["tensor"]),
        values={str(name): float(number) for name, number in fields["values"].items()},
        hint=str(fields["hint"]),
    )
    step, mode_step = int(fields["step"]), int(fields["mode_step"])
    return Fired(
        rule=str(fields["rule"]),
        step=step,
        mode=fields["mode"],
        mode_step=mode_step,
        finding=finding,
    )

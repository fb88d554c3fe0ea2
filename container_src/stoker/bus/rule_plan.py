"""rule_plan.json: the rules of a job, checked and complete, in `output/stoker`.

A JSON list in the shape of the service's API, with what each rule needs saved: the form that
`debugging.specs` writes, without the actions, which may hold secrets. On each host the check of
the rules leaves it before the worker starts; hook and evaluator read it.
"""

from __future__ import annotations

import os

from stoker.contract.files import read_regular, remove_file, write_atomically

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.contract.paths import Paths


def rule_plan_file(paths: Paths) -> str:
    return f"{paths.output_dir}/stoker/rule_plan.json"


def write_rule_plan(paths: Paths, text: str) -> None:
    """Leaves the rules for hook and evaluator.

    Raises:
        OSError: it cannot be written.
    """
    file = rule_plan_file(paths)
    os.makedirs(os.path.dirname(file), exist_ok=True)
    write_atomically(file, text, is_private=True)


def read_rule_plan(paths: Paths) -> str:
    """The text that was written; empty if the job has no rules.

    Raises:
        OSError: it cannot be read.
    """
    try:
        return read_regular(rule_plan_file(paths)).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def forget_rule_plan(paths: Paths) -> None:
    """Removes what a run before this one has left: on a laptop several share a root."""
    remove_file(rule_plan_file(paths))

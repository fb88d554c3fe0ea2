"""Trainings of any form, their tensors saved by the real hook as a rule asks for them.

with watch(rule, tmp_path) as run:
    …  # any training
assert fired(rule, run) == [1, 2]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from stoker.debugging.hook.attach import attach
from stoker.debugging.hook.config import default_config
from stoker.debugging.need import Need
from stoker.debugging.rule import Rule
from stoker.debugging.tensors import SavedTensors


def watch(rule: Rule, folder: Path) -> AbstractContextManager[SavedTensors]:
    """Saves every step of what is trained inside; complete after the block."""
    return save_steps(folder, needs=rule.needs())


@contextmanager
def save_steps(folder: Path, *, needs: Sequence[Need]) -> Iterator[SavedTensors]:
    run = SavedTensors(folder)
    with attach(default_config(every=1), folder, needs=needs):
        yield run
    run.refresh()

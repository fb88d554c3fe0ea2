"""Judging a run that is over, from what was saved of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from stoker.debugging.evaluate.watched import Fired, WatchedRule
from stoker.debugging.specs import RuleSpec
from stoker.debugging.tensors import SavedTensors
from stoker.errors import TensorMissing, TensorsUnreadable


def evaluate_saved(
    saved: SavedTensors,
    specs: Sequence[RuleSpec],
    *,
    code_dir: Path | None = None,
    steps: Iterable[int] | None = None,
    on_fire: Callable[[Fired], None] = lambda fired: None,
) -> list[WatchedRule]:
    """Asks each rule about each step, in rising order; no action is carried out.

    Args:
        saved: the run.
        specs: the rules.
        code_dir: where classes of the user's are.
        steps: only these; all that were saved if it is not given.
        on_fire: told of each finding as it is made.

    Returns:
        The rules with their final statuses.
    """
    rules = [WatchedRule(spec, code_dir=code_dir) for spec in specs]
    wanted = set(steps) if steps is not None else None
    judged = [step for step in saved.steps() if wanted is None or step in wanted]
    for step in judged:
        for fired in judge_step(rules, saved, step):
            on_fire(fired)
    names = saved.names()
    for rule in rules:
        rule.finish(names=names, steps=len(judged))
    return rules


def judge_step(
    rules: Sequence[WatchedRule],
    saved: SavedTensors,
    step: int,
    *,
    is_over: Callable[[], bool] = lambda: False,
) -> Iterator[Fired]:
    """Asks all rules about one step; one that cannot be read is noted with each of them.

    Yields each finding before the next rule is asked, which may take its time.

    Args:
        rules: those that are over are passed over.
        saved: the run.
        step: one that was saved.
        is_over: whether there is no time for further rules.
    """
    try:
        tensors = saved.at(step)
    except (TensorMissing, TensorsUnreadable, OSError, MemoryError) as error:
        for rule in rules:
            rule.note_unread(step, error)
        return
    for rule in rules:
        if is_over():
            return
        fired = rule.judge(tensors)
        if fired is not None:
            yield fired

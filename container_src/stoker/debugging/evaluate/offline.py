"""Evaluating rules over the saved tensors of a finished run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from stoker.debugging.evaluate.evaluator import evaluate_step
from stoker.debugging.evaluate.watched import Fired, WatchedRule
from stoker.debugging.specs import RuleSpec
from stoker.debugging.tensors import SavedTensors


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
    evaluated = [step for step in saved.steps() if wanted is None or step in wanted]
    for step in evaluated:
        for fired in evaluate_step(rules, saved, step):
            on_fire(fired)
    names = saved.names()
    for rule in rules:
        rule.finish(names=names, steps=len(evaluated))
    return rules

"""Saved tensors without files: what a rule sees, made by hand.

run = Run().save(0, {"Net_fc.weight": [1.0, 2.0]}).save(1, {"Net_fc.weight": [1.0, 2.0]})
assert fired(rule, run) == [1]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from stoker.debugging.description import Description
from stoker.debugging.hook.reduce import reduce as reduce_in_hook
from stoker.debugging.need import Need
from stoker.debugging.population_variance import is_variance, population_variance
from stoker.debugging.rule import Finding, Rule
from stoker.debugging.step_tensors import Mode
from stoker.debugging.tensors.collection import Chooser, Collection
from stoker.errors import TensorMissing

WORKER = "worker_0"


class Tensor:
    """One array, or only the reductions that were made from one."""

    def __init__(
        self,
        description: Description,
        value: np.ndarray | None,
        reductions: Mapping[str, float],
        worker: str,
    ) -> None:
        self.name = description.name
        self.description = description
        self.worker = worker
        self._value = value
        self._reductions = reductions

    def value(self) -> np.ndarray:
        if self._value is None:
            raise TensorMissing(f"only reductions of {self.name} were saved")
        return self._value

    def reduction(self, name: str) -> float:
        if name not in self._reductions:
            return reduce(name, self.value())
        if is_variance(name):
            return population_variance(name, self._reductions)
        return self._reductions[name]


def reduce(name: str, value: np.ndarray) -> float:
    """A reduction by its name, straight from NumPy; NaN where there is nothing to reduce."""
    numbers = np.asarray(value, dtype=np.float64)
    if name.startswith("abs_"):
        numbers = np.abs(numbers)
    functions = {
        "l1_norm": lambda x: np.abs(x).sum(),
        "l2_norm": lambda x: np.sqrt(np.square(x).sum()),
        "variance": np.var,
        **{plain: getattr(np, plain) for plain in ("min", "max", "mean", "std", "sum", "prod")},
    }
    with np.errstate(all="ignore"):
        return float(functions[name.removeprefix("abs_")](numbers)) if numbers.size else np.nan


class Step:
    """All tensors of one step; it knows the steps before it, not those after it."""

    def __init__(self, run: Run, step: int, mode: Mode, mode_step: int) -> None:
        self.run, self.step, self.mode, self.mode_step = run, step, mode, mode_step
        self.tensors: list[Tensor] = []

    def needed(self, need: Need | str) -> list[Tensor]:
        wanted = Need(collection=need) if isinstance(need, str) else need
        names = tuple(sorted({tensor.name for tensor in self.tensors}))
        chosen = self.run.chooser.choose(wanted, names)
        return [t for name in chosen for t in self.tensors if t.name == name]

    def find(self, name: str) -> Tensor | None:
        return next((tensor for tensor in self.tensors if tensor.name == name), None)

    def steps(self, mode: Mode | None = None) -> list[int]:
        return [step for step in self.run.steps(mode) if step <= self.step]

    def at(self, step: int) -> Step:
        if step > self.step:
            raise AssertionError(f"a rule at step {self.step} asked for the later step {step}")
        return self.run.at(step)


class Run:
    """The saved steps of one training."""

    def __init__(
        self,
        *,
        descriptions: Sequence[Description] = (),
        collections: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """
        Args:
            descriptions: what a hook would have written down; other names speak for themselves.
            collections: users' own, with the names of their tensors.
        """
        self.chooser = Chooser()
        self.chooser.learn(
            {described.name: described for described in descriptions},
            {
                name: Collection(name=name, tensor_names=tuple(names))
                for name, names in (collections or {}).items()
            },
        )
        self._steps: dict[int, Step] = {}

    def save(
        self,
        step: int,
        tensors: Mapping[str, Any],
        *,
        mode: Mode = "TRAIN",
        worker: str = WORKER,
        reductions: Sequence[str] = (),
    ) -> Run:
        """Adds tensors to a step; of a step that is there already, the mode stays.

        Args:
            reductions: save only these of each tensor, as the hook makes them, not its values.
        """
        at = self._steps.get(step)
        if at is None:
            at = Step(self, step, mode, len(self.steps(mode)))
            self._steps[step] = at
        for name, content in tensors.items():
            value = np.array(content)
            value.flags.writeable = False
            description = self.chooser.describe(name)
            tensor = torch.tensor(value) if reductions else None
            saved = {} if tensor is None else reduce_in_hook(tensor, tuple(reductions))
            at.tensors.append(Tensor(description, None if saved else value, saved, worker))
        return self

    def at(self, step: int) -> Step:
        if step not in self._steps:
            raise TensorMissing(f"nothing was saved at step {step}")
        return self._steps[step]

    def steps(self, mode: Mode | None = None) -> list[int]:
        return sorted(n for n, s in self._steps.items() if mode in (None, s.mode))


def judge(rule: Rule, run: Run, *, start: int = 0, end: int | None = None) -> dict[int, Finding]:
    """What the rule finds, by step, from `start` to before `end`."""
    steps = [n for n in run.steps() if n >= start and (end is None or n < end)]
    found = {step: rule.check(step, run.at(step)) for step in steps}
    return {step: finding for step, finding in found.items() if finding is not None}


def fired(rule: Rule, run: Run, *, start: int = 0, end: int | None = None) -> list[int]:
    """The steps at which it fires."""
    return list(judge(rule, run, start=start, end=end))

"""All tensors of one step."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Protocol

from stoker.debugging.need import Need
from stoker.debugging.step_tensors import Mode
from stoker.debugging.tensors.collection import Chooser
from stoker.debugging.tensors.event_files import EventFile
from stoker.debugging.tensors.index import Index, Meta
from stoker.debugging.tensors.tensor import Tensor


class Run(Protocol):
    """What a step asks of the run it belongs to."""

    folder: str
    chooser: Chooser

    def steps(self, mode: Mode | None = None) -> Sequence[int]: ...
    def at(self, step: int) -> Step: ...
    def open_events(self, name: str) -> EventFile: ...


class Step:
    """One complete step; the `StepTensors` that rules see."""

    def __init__(self, run: Run, step: int, meta: Meta, indexes: dict[str, Index]) -> None:
        """
        Args:
            run: it belongs to.
            step: the global one.
            meta: its mode.
            indexes: worker → what it saved, in the order of the workers.
        """
        self._run, self._indexes, self.folder = run, indexes, run.folder
        self.step, self.mode, self.mode_step = step, meta.mode, meta.mode_step
        self.names = tuple(sorted({name for i in indexes.values() for name in i.entries}))
        """Of its tensors."""
        self._files = {w: run.open_events(i.events) for w, i in indexes.items()}
        self._tensors: dict[str, list[Tensor]] = {}

    def __repr__(self) -> str:
        return f"<Step {self.step}: {self.mode} {self.mode_step}, {len(self.names)} tensors>"

    @property
    def workers(self) -> tuple[str, ...]:
        """Those that wrote it."""
        return tuple(self._indexes)

    def needed(self, need: Need | str) -> list[Tensor]:
        """The tensors of a need, or of a collection by its name, sorted by name."""
        wanted = Need(collection=need) if isinstance(need, str) else need
        chosen = self._run.chooser.choose(wanted, self.names)
        return [tensor for name in chosen for tensor in self._named(name)]

    def find(self, name: str) -> Tensor | None:
        """One tensor by its name, of the first worker that has it."""
        tensors = self._named(name)
        return tensors[0] if tensors else None

    def all(self, name: str) -> list[Tensor]:
        """A tensor of each worker that has it."""
        return list(self._named(name))

    def steps(self, mode: Mode | None = None) -> Sequence[int]:
        """The global steps saved so far, this one included, of one mode or of all; rising."""
        steps = self._run.steps(mode)
        return steps[: bisect_right(steps, self.step)]

    def at(self, step: int) -> Step:
        """The same of an earlier step.

        Raises:
            TensorMissing: nothing was saved there.
        """
        return self._run.at(step)

    def _named(self, name: str) -> list[Tensor]:
        if name not in self._tensors:
            describe = self._run.chooser.describe
            self._tensors[name] = [
                Tensor(name, worker, index.entries[name], self._files[worker], describe)
                for worker, index in self._indexes.items()
                if name in index.entries
            ]
        return self._tensors[name]

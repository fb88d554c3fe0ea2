"""One saved tensor of one worker at one step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stoker.debugging.description import Description
from stoker.debugging.population_variance import is_variance, population_variance
from stoker.debugging.reductions import make_reduction
from stoker.debugging.tensors.event_files import EventFile
from stoker.debugging.tensors.index import Entry
from stoker.errors import TensorMissing


class Tensor:
    """Read from the file when asked for; numbers that were computed are kept."""

    __slots__ = ("_describe", "_entry", "_file", "_numbers", "_value", "name", "worker")

    def __init__(
        self,
        name: str,
        worker: str,
        entry: Entry,
        file: EventFile,
        describe: Callable[[str], Description],
    ) -> None:
        self.name, self.worker = name, worker
        self._entry, self._file, self._describe = entry, file, describe
        self._numbers: dict[str, float] = {}
        self._value: NDArray[Any] | None = None

    def __repr__(self) -> str:
        return f"<Tensor {self.name} of {self.worker}>"

    @property
    def description(self) -> Description:
        return self._describe(self.name)

    @property
    def has_value(self) -> bool:
        """Whether the tensor itself was saved, not only reductions of it."""
        return self._entry.location is not None or self._is_empty

    @property
    def saved_reductions(self) -> tuple[str, ...]:
        """Those that were saved; others can be computed where there is a value."""
        return tuple(self._entry.reductions)

    @property
    def shape(self) -> tuple[int, ...] | None:
        """None where only reductions were saved.

        Raises:
            TensorsUnreadable: the file is damaged.
        """
        if self._entry.shape is not None or self._entry.location is None:
            return self._entry.shape
        return self._file.fields(self.name, self._entry.location).shape

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """None where the values were not saved.

        Raises:
            TensorsUnreadable: the file is damaged.
        """
        if self._entry.location is None:
            return None
        return self._file.dtype(self.name, self._entry.location)

    @property
    def size_bytes(self) -> int:
        """What it takes in the file, its reductions included."""
        located = [location for _, location in self._entry.reductions.values()]
        located += [self._entry.location] if self._entry.location is not None else []
        return sum(location.length for location in located)

    def value(self) -> NDArray[Any]:
        """The whole tensor, not to be written to.

        Raises:
            TensorMissing: only reductions were saved.
            TensorsUnreadable: the file is damaged.
        """
        if self._value is None:
            self._value = self._read()
            self._value.flags.writeable = False
        return self._value

    def reduction(self, name: str) -> float:
        """`abs_mean`, `max`, …: as it was saved, or computed from the value (in float64).

        `std` and `variance` are those of all elements either way, if it is known how many there
        are (see `stoker.debugging.population_variance`).

        Raises:
            TensorMissing: it was not saved, and neither was the value.
            TensorsUnreadable: the file is damaged.
        """
        if name not in self._numbers:
            if name not in self._entry.reductions:
                number = make_reduction(self.value(), name)
            elif is_variance(name):
                number = self._spread(name)
            else:
                number = self._saved_number(name)
            self._numbers[name] = number
        return self._numbers[name]

    def _spread(self, name: str) -> float:
        related = {name, "mean", "abs_mean", "l2_norm"}.intersection(self._entry.reductions)
        return population_variance(name, {n: self._saved_number(n) for n in related}, self.shape)

    def _saved_number(self, name: str) -> float:
        return float(self._file.array(*self._entry.reductions[name]).reshape(-1)[0])

    @property
    def _is_empty(self) -> bool:
        return self._entry.shape is not None and 0 in self._entry.shape

    def _read(self) -> NDArray[Any]:
        if self._entry.location is not None:
            return self._file.array(self.name, self._entry.location)
        if self._is_empty:  # a tensor without elements has no record
            return np.empty(self._entry.shape or (), np.float32)
        saved = ", ".join(self._entry.reductions) or "its shape"
        raise TensorMissing(
            f"of {self.name} only {saved} was saved, not the values",
            fix='set "save_raw_tensor": "True" in the collection, or ask for no reductions',
        )

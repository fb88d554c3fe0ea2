"""What was measured of a run, as arrays: system samples, steps and operators of all hosts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from stoker.bus.job_phases import JobPhase
from stoker.bus.step_records import StepFacts
from stoker.bus.system_samples import CONTAINER_CPU, CPU_LIMIT, CPU_UTILIZATION, PRESSURE
from stoker.debugging.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SNAPSHOT_SECONDS = 0.02
"""Events of one snapshot may differ by so much in the service's files."""


CROWDED_PERCENT = 40.0
"""Of the time, in which some process waits for a core."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """One figure over time."""

    times: Floats
    """Unix seconds, rising."""
    values: Floats

    def __len__(self) -> int:
        return len(self.times)

    def until(self, moment: float) -> Series:
        """What was measured before a moment."""
        end = int(np.searchsorted(self.times, moment))
        return self if end == len(self.times) else self._cut(0, end)

    def between(self, start: float, end: float) -> Series:
        """What was measured from one moment on and before another."""
        first, last = np.searchsorted(self.times, (start, end))
        return self._cut(int(first), int(last))

    def _cut(self, first: int, last: int) -> Series:
        return Series(times=self.times[first:last], values=self.values[first:last])


@dataclass(frozen=True, kw_only=True, slots=True)
class StepSeries:
    """The steps of one process in one mode, in order."""

    node: str
    rank: int
    mode: str
    """TRAIN or EVAL."""
    numbers: Floats
    starts: Floats
    """Unix seconds."""
    seconds: Floats
    counts: Floats
    """Steps that are added up in each entry; 1, but for very long runs."""
    longest: Floats
    """Seconds of the longest of them."""
    first_of_epoch: NDArray[np.bool_]
    parts: Mapping[str, Floats] = field(default_factory=dict)
    """Part of a step → its seconds in each entry, such as `data_wait`."""
    ready_batches: Floats | None = None
    """That lay in the loader's queue when a batch was asked for; -1 where that is not known."""

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def name(self) -> str:
        return f"{self.node} rank {self.rank}"

    @property
    def ends(self) -> Floats:
        return self.starts + self.seconds

    @property
    def each(self) -> Floats:
        """Seconds of one step."""
        return self.seconds / self.counts

    @property
    def other(self) -> Floats:
        """Seconds in each entry that belong to none of its parts."""
        return self.seconds - sum(self.parts.values(), np.zeros(len(self)))

    @property
    def steps(self) -> int:
        return int(self.counts.sum())

    def until(self, moment: float) -> StepSeries:
        """The steps that had ended before a moment."""
        end = int(np.searchsorted(self.ends, moment))
        return self if end == len(self.starts) else self.take(slice(0, end))

    def take(self, chosen: slice | NDArray[np.bool_]) -> StepSeries:
        """Some of the steps."""
        return replace(
            self,
            numbers=self.numbers[chosen],
            starts=self.starts[chosen],
            seconds=self.seconds[chosen],
            counts=self.counts[chosen],
            longest=self.longest[chosen],
            first_of_epoch=self.first_of_epoch[chosen],
            parts={name: seconds[chosen] for name, seconds in self.parts.items()},
            ready_batches=None if self.ready_batches is None else self.ready_batches[chosen],
        )

    def part(self, name: str) -> Floats:
        """The seconds of a part in each step; zeros where it was not measured."""
        return self.parts.get(name, np.zeros(len(self.starts)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One span of a timeline: an operator, a submodule, a fetch of data."""

    node: str
    phase: str
    """Such as `cpu_functions`, `gpu_functions-dev:0`, `Forward-SubModuleInternal`."""
    name: str
    start: float
    seconds: float
    pid: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """A run up to a moment. Nothing of it need be there."""

    samples: Mapping[str, Mapping[tuple[str, str], Series]] = field(default_factory=dict)
    """Node → (dimension, name) → the figure."""
    steps: Sequence[StepSeries] = ()
    events: Sequence[Event] = ()
    facts: Sequence[StepFacts] = ()
    """Of the processes that train."""
    phases: Sequence[JobPhase] = ()
    """Of the launchers."""

    @property
    def nodes(self) -> list[str]:
        return sorted({*self.samples, *(one.node for one in self.steps)})

    @property
    def first(self) -> float | None:
        """The first moment of anything."""
        return min((*self._bounds(0), *(phase.start for phase in self.phases)), default=None)

    @property
    def last(self) -> float | None:
        return max((*self._bounds(-1), *(phase.end for phase in self.phases)), default=None)

    def until(self, moment: float) -> Profile:
        """The same as it was known at a moment."""
        return replace(
            self,
            samples={
                node: {key: series.until(moment) for key, series in of_node.items()}
                for node, of_node in self.samples.items()
            },
            steps=[one.until(moment) for one in self.steps],
            events=[event for event in self.events if event.start < moment],
            phases=[phase for phase in self.phases if phase.end <= moment],
        )

    def devices(self, node: str, dimension: str) -> dict[str, Series]:
        """Device → its figure, of those that were measured at all."""
        found = self.samples.get(node, {})
        return {
            name: found[key]
            for key in sorted(found, key=_device_order)
            for name in (key[1] or dimension,)
            if key[0] == dimension and len(found[key])
        }

    def one(self, node: str, *names: str) -> Series | None:
        """A figure that a node has once, by its dimension or its name."""
        for (dimension, name), series in self.samples.get(node, {}).items():
            if len(series) and (dimension in names or name in names):
                return series
        return None

    def total(self, node: str, dimension: str) -> Series | None:
        """The mean over all devices, at each snapshot."""
        times, rows = self.snapshots(node, dimension)
        return Series(times=times, values=rows.mean(axis=1)) if len(times) else None

    def cpu(self, node: str) -> Series | None:
        """Percent of what the container may use; of all cores where only those were measured."""
        found = self.one(node, CONTAINER_CPU)
        return found if found is not None else self.total(node, CPU_UTILIZATION)

    def is_crowded(self, node: str, since: float = 0.0) -> bool:
        """Whether cores are what its processes wait for: on a shared machine others have them."""
        waiting = self.samples.get(node, {}).get((PRESSURE, "cpu some"))
        found = waiting.between(since, float("inf")).values if waiting is not None else ()
        return len(found) > 0 and float(np.mean(found)) > CROWDED_PERCENT

    def snapshots(self, node: str, dimension: str) -> tuple[Floats, Floats]:
        """Times, and a row for each with the figures of all devices."""
        return _align(list(self.devices(node, dimension).values()))

    def cores(self, node: str) -> float:
        """How many the container may use; 0 if that is not known."""
        limit = self.one(node, CPU_LIMIT)
        if limit is not None:
            return float(limit.values[-1])
        known = [facts.cpus for facts in self.facts if facts.host == node]
        return float(max(known, default=0) or len(self.devices(node, CPU_UTILIZATION)))

    def steps_of(self, mode: str = "TRAIN") -> list[StepSeries]:
        """The steps of one mode, of the processes that have any."""
        return [one for one in self.steps if one.mode == mode and len(one)]

    def _bounds(self, place: int) -> Iterable[float]:
        for of_node in self.samples.values():
            yield from (float(series.times[place]) for series in of_node.values() if len(series))
        for one in self.steps:
            if len(one):
                yield float((one.ends if place else one.starts)[place])


def _align(series: Sequence[Series]) -> tuple[Floats, Floats]:
    """Rows of values measured at the same moment; a snapshot that lacks a device is left out."""
    if not series:
        return np.empty(0), np.empty((0, 0))
    first = series[0]
    if all(_is_simultaneous(first, other) for other in series[1:]):
        return first.times, np.column_stack([one.values for one in series])
    columns, is_whole = [], np.ones(len(first), dtype=bool)
    for one in series:
        place = np.clip(
            np.searchsorted(one.times, first.times - SNAPSHOT_SECONDS), 0, len(one) - 1
        )
        columns.append(one.values[place])
        is_whole &= np.abs(one.times[place] - first.times) <= SNAPSHOT_SECONDS
    return first.times[is_whole], np.column_stack(columns)[is_whole]


def _is_simultaneous(one: Series, other: Series) -> bool:
    if len(one) != len(other):
        return False
    return bool(np.all(np.abs(one.times - other.times) <= SNAPSHOT_SECONDS))


def _device_order(key: tuple[str, str]) -> tuple[int, str]:
    digits = "".join(letter for letter in key[1] if letter.isdigit())
    return (int(digits or 0), key[1])

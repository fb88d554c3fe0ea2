"""In which form each tensor is saved at a step: decided once for each name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from stoker.debugging.description import Description
from stoker.debugging.hook.wanted import Wanted
from stoker.debugging.step_tensors import Mode
from stoker.debugging.tensors.collection import Collection


class Form(NamedTuple):
    """How one tensor is saved."""

    has_values: bool
    reductions: tuple[str, ...]
    has_shape: bool
    histograms: tuple[str, ...]
    """Collections under which TensorBoard gets a histogram."""

    def is_copied(self, *, from_cpu: bool) -> bool:
        """Whether it takes host memory.

        Reductions are made of a copy, too, by the writer's thread: training waits less. On
        another device they are made there.
        """
        return self.has_values or (from_cpu and bool(self.reductions))


class Forms:
    """All that is due together at some steps."""

    def __init__(self, due: Sequence[Wanted]) -> None:
        self._due = due
        self._made: dict[str, Form | None] = {}
        self.size_bytes = 0
        """Of the largest step so far at which this was due."""

    def of(self, tensor: Description) -> Form | None:
        """None: it is not saved."""
        try:
            return self._made[tensor.name]
        except KeyError:
            found = [wanted for wanted in self._due if wanted.matches(tensor)]
            self._made[tensor.name] = form = _joined(found) if found else None
            return form

    def any_of(self, tensors: Iterable[Description]) -> bool:
        return any(self.of(tensor) is not None for tensor in tensors)


def _joined(wanted: Sequence[Wanted]) -> Form:
    has_values = any(entry.has_values for entry in wanted)
    reductions = [
        name
        for entry in wanted
        if not (has_values and entry.is_content_with_values)
        for name in entry.reductions
    ]
    return Form(
        has_values=has_values,
        reductions=tuple(dict.fromkeys(reductions)),
        has_shape=any(entry.has_shapes for entry in wanted),
        histograms=tuple(
            dict.fromkeys(entry.collection for entry in wanted if entry.has_histogram)
        ),
    )


class Table:
    """Everything that is wanted, and which of it is due when."""

    def __init__(self, wanted: Sequence[Wanted]) -> None:
        self._wanted = wanted
        self._forms: dict[tuple[bool, ...], Forms | None] = {}
        self._names: dict[int, list[str]] = {number: [] for number in range(len(wanted))}

    def due(self, mode: Mode, mode_step: int) -> Forms | None:
        """What is saved at a step; None where it is nothing."""
        key = tuple([wanted.is_due(mode, mode_step) for wanted in self._wanted])
        if True not in key:
            return None
        if key not in self._forms:
            due = [wanted for wanted, is_due in zip(self._wanted, key, strict=True) if is_due]
            has_any = any(wanted.names_tensors for wanted in due)
            self._forms[key] = Forms(due) if has_any else None
        return self._forms[key]

    def enlist(self, tensor: Description) -> None:
        """A tensor of this name was saved."""
        for number, wanted in enumerate(self._wanted):
            if wanted.matches(tensor):
                self._names[number].append(tensor.name)

    def collections(self) -> list[Collection]:
        """As the files list them: one for each name."""
        made: dict[str, Collection] = {}
        for number, wanted in enumerate(self._wanted):
            found = _collection(wanted, self._names[number])
            known = made.get(wanted.collection)
            made[wanted.collection] = _union(known, found) if known else found
        return list(made.values())

    def nameless(self) -> list[str]:
        """Collections of which nothing says which tensors are theirs."""
        named = {wanted.collection for wanted in self._wanted if wanted.names_tensors}
        return list(dict.fromkeys(w.collection for w in self._wanted if w.collection not in named))

    def unmet(self) -> list[Wanted]:
        """What was due and matched no tensor: one for each collection that is empty.

        The SDK adds regexes of MXNet's names to a collection (`.*relu_output`), and our rule asks
        for the same one by the class of the modules: it is enough that one of them finds some.
        """
        # A key of _forms says, for each entry, whether it was due: a column is one entry over all
        # of them.
        was_due = [any(column) for column in zip(*self._forms, strict=True)]
        met = {wanted.collection for n, wanted in enumerate(self._wanted) if self._names[n]}
        missed: dict[str, Wanted] = {}
        for wanted, is_due in zip(self._wanted, was_due, strict=False):  # none, or one for each
            is_optional = wanted.need is not None and wanted.need.is_optional
            if is_due and wanted.names_tensors and not is_optional:
                known = missed.setdefault(wanted.collection, wanted)
                regexes = dict.fromkeys((*known.regexes, *wanted.regexes))
                missed[wanted.collection] = replace(known, regexes=tuple(regexes))
        return [wanted for name, wanted in missed.items() if name not in met]


def _collection(wanted: Wanted, names: Sequence[str]) -> Collection:
    return Collection(
        name=wanted.collection,
        tensor_names=tuple(names),
        include_regex=wanted.regexes,
        reductions=wanted.reductions,
        save_raw_tensor=wanted.has_values,
        save_shape=wanted.has_shapes,
        save_histogram=wanted.has_histogram,
        schedules=wanted.schedules,
    )


def _union(one: Collection, other: Collection) -> Collection:
    return replace(
        one,
        tensor_names=tuple(dict.fromkeys((*one.tensor_names, *other.tensor_names))),
        include_regex=tuple(dict.fromkeys((*one.include_regex, *other.include_regex))),
        reductions=tuple(dict.fromkeys((*one.reductions, *other.reductions))),
        save_raw_tensor=one.save_raw_tensor or other.save_raw_tensor,
        save_shape=one.save_shape or other.save_shape,
        save_histogram=one.save_histogram or other.save_histogram,
    )

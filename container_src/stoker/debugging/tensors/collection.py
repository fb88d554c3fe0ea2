"""Collections: which tensors belong together, when each is saved, which of them a need means."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from stoker.debugging.description import Description, describe_by_name
from stoker.debugging.need import Need
from stoker.debugging.step_tensors import Mode
from stoker.debugging.tensors.layout import collections_file
from stoker.debugging.tensors.step_file import write_whole


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """At which steps a collection is saved."""

    save_interval: int = 500
    start_step: int = 0
    end_step: int | None = None
    save_steps: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Collection:
    """Tensors under one name, as smdebug's readers know it."""

    name: str
    tensor_names: tuple[str, ...] = ()
    include_regex: tuple[str, ...] = ()
    """Of further tensors: those whose name one of these is found in."""
    reductions: tuple[str, ...] = ()
    save_raw_tensor: bool = True
    save_shape: bool = False
    save_histogram: bool = True
    schedules: Mapping[Mode, Schedule] = field(default_factory=dict)


def write_collections(
    folder: str, worker: str, collections: Iterable[Collection], *, num_workers: int = 1
) -> None:
    """Writes the collections of one worker, in place of those it wrote before.

    Readers wait for this file: write it before the first step, and again as names are added.

    Args:
        folder: of the saved tensors.
        worker: whose they are.
        collections: all of them.
        num_workers: how many workers save. A step is complete when each of them has written it.

    Raises:
        OSError: it cannot be written.
    """
    content = {
        "collections": {c.name: _to_json(c) for c in collections},
        "_meta": {"num_workers": num_workers},
    }
    write_whole(f"{folder}/{collections_file(worker)}", json.dumps(content))


def parse_collections(content: str) -> tuple[dict[str, Collection], int]:
    """The collections of a file and the number of workers.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: it is not such a file.
    """
    parsed = json.loads(content)
    found = {name: _from_json(name, c) for name, c in parsed["collections"].items()}
    return found, int(parsed["_meta"]["num_workers"])


def _to_json(collection: Collection) -> dict[str, Any]:
    return {
        "name": collection.name,
        "include_regex": list(collection.include_regex),
        "tensor_names": sorted(collection.tensor_names),
        "reduction_config": {
            "save_raw_tensor": collection.save_raw_tensor,
            "reductions": ",".join(collection.reductions),
            "save_shape": collection.save_shape,
        },
        "save_config": {
            mode: {
                "save_interval": schedule.save_interval,
                "save_steps": list(schedule.save_steps),
                "start_step": schedule.start_step,
                "end_step": schedule.end_step,
            }
            for mode, schedule in collection.schedules.items()
        }
        or None,
        "save_histogram": collection.save_histogram,
    }


def _from_json(name: str, content: Mapping[str, Any]) -> Collection:
    config = content.get("reduction_config") or {}
    schedules = content.get("save_config") or {}
    return Collection(
        name=name,
        tensor_names=tuple(map(str, content.get("tensor_names") or ())),
        include_regex=tuple(map(str, content.get("include_regex") or ())),
        reductions=tuple(filter(None, config.get("reductions", "").split(","))),
        save_raw_tensor=bool(config.get("save_raw_tensor", not config.get("reductions"))),
        save_shape=bool(config.get("save_shape", False)),
        save_histogram=bool(content.get("save_histogram", True)),
        schedules={mode: _schedule(times) for mode, times in schedules.items() if times},
    )


def _schedule(times: Mapping[str, Any]) -> Schedule:
    return Schedule(
        save_interval=times["save_interval"],
        start_step=times["start_step"],
        end_step=times["end_step"],
        save_steps=tuple(times["save_steps"]),
    )


Names = tuple[str, ...]
_MOST_CHOICES = 500


class Chooser:
    """Answers by descriptions and collections. Steps mostly save the same names: so it keeps its
    answers."""

    def __init__(self) -> None:
        self.described: Mapping[str, Description] = {}
        """By the hook; others are described by their names."""
        self.collections: Mapping[str, Collection] = {}
        self._by_name: dict[str, Description] = {}
        self._chosen: dict[tuple[Need, Names], Names] = {}

    def learn(
        self, described: Mapping[str, Description], collections: Mapping[str, Collection]
    ) -> None:
        """Takes what is known by now in place of what was."""
        self.described, self.collections = described, collections
        # A description that comes later may change what a need means.
        self._chosen.clear()

    def describe(self, name: str) -> Description:
        """What the hook said of a tensor, or what its name tells."""
        description = self.described.get(name) or self._by_name.get(name)
        if description is None:
            description = self._by_name[name] = describe_by_name(name)
        return description

    def choose(self, need: Need, names: Names) -> Names:
        """Of some tensors, those that are meant."""
        key = (need, names)
        if key not in self._chosen:
            if len(self._chosen) >= _MOST_CHOICES:
                self._chosen.clear()
            self._chosen[key] = self._choose(need, names)
        return self._chosen[key]

    def _choose(self, need: Need, names: Names) -> Names:
        chosen = {name for name in names if need.matches(self.describe(name))}
        if need.is_by_collection or not (chosen or need.regex):
            chosen |= self._listed(need.collection, names)
        if not chosen and need.fallback_regex:
            pattern = re.compile(need.fallback_regex)
            chosen = {name for name in names if pattern.search(name)}
        return tuple(name for name in names if name in chosen)

    def _listed(self, collection_name: str, names: Names) -> set[str]:
        """Those that the collections file has. Its patterns are guesses by name, so they are not
        asked about tensors that the hook has described."""
        collection = self.collections.get(collection_name)
        if collection is None:
            return set()
        listed = set(collection.tensor_names).intersection(names)
        patterns = _compile(collection.include_regex)
        guessed = (n for n in names if n not in self.described)
        return listed.union(n for n in guessed if any(p.search(n) for p in patterns))


def _compile(patterns: Iterable[str]) -> list[re.Pattern[str]]:
    """Those that are expressions: one of a damaged file matches nothing and does no harm."""
    compiled = []
    for pattern in patterns:
        with suppress(re.error, OverflowError, RecursionError):
            compiled.append(re.compile(pattern))
    return compiled

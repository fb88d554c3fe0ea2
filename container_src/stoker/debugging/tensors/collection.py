"""Collections: which tensors belong together, and when each was to be saved."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from stoker.contract.record import Record
from stoker.debugging.step_tensors import Mode
from stoker.debugging.tensors.layout import collections_file
from stoker.debugging.tensors.step_file import write_whole


class Schedule(Record):
    """At which steps a collection is saved."""

    save_interval: int = 500
    start_step: int = 0
    end_step: int | None = None
    save_steps: tuple[int, ...] = ()


class Collection(Record):
    """Tensors under one name, as smdebug's readers know it."""

    name: str
    tensor_names: tuple[str, ...] = ()
    include_regex: tuple[str, ...] = ()
    """Of further tensors: those whose name one of these is found in."""
    reductions: tuple[str, ...] = ()
    save_raw_tensor: bool = True
    save_shape: bool = False
    save_histogram: bool = True
    schedules: Mapping[Mode, Schedule] = {}


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
        ValueError, KeyError, TypeError, AttributeError: it is no such file.
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

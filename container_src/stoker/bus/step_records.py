"""stoker/steps/<host>_<rank>_<pid>.steps: where the time of every step of one process went.

Records of `RECORD_BYTES` each, nothing else, appended about once a second. A record is one step,
or several equal ones added up: a process writes `LEVEL_RECORDS` records of one step, then as many
of two steps each, then of four …, so a file of a million steps stays below 25 MB. Next to it
`<same name>.json` holds what is true of the process (`StepFacts`), replaced when it changes.
"""

from __future__ import annotations

import os
import struct

from stoker.contract.files import READ_LIMIT_BYTES, open_regular, read_object, write_atomically
from stoker.contract.quick_json import dumps
from stoker.contract.record import Record
from stoker.errors import ConfigInvalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

VERSION = 1
# 8 MiB of records on each level.
LEVEL_RECORDS = 131_072
# The greatest power of two in the 16 bits of `count`.
MOST_MERGED = 32_768
"""Steps in one record at most."""

FIELDS = (
    *("start", "step", "count", "flags", "ready_batches"),
    *("total", "data_wait", "transfer", "forward", "backward", "optimizer", "checkpoint"),
    *("logging", "longest", "device_forward", "device_backward", "device_optimizer"),
)
"""Of a record. With NumPy: `np.frombuffer(steps.records, dtype=DTYPE)`.

start           Unix time of the (first) step, seconds
step            its number within its phase, from 0
count           steps added up here
flags           see below
ready_batches   that lay ready in the loader when a batch was asked for; -1: unknown
total … logging seconds, added up; `other` is total minus all of them
longest         total of the longest of the steps, seconds
device_…        seconds of work on the accelerator; NaN without one
"""

_KINDS: dict[type, tuple[type, ...]] = {float: (int, float), tuple: (list,)}
# Little-endian without padding, so 64 bytes everywhere; DTYPE is the same for NumPy.
_FORMAT = struct.Struct("<dIHBb12f")
RECORD_BYTES = _FORMAT.size
DTYPE = tuple(zip(FIELDS, ("<f8", "<u4", "<u2", "u1", "i1", *["<f4"] * 12), strict=True))

EVALUATION = 1
"""An evaluation step: a forward pass without gradients and without an optimizer step."""
FIRST_OF_EPOCH = 2
"""The first batch after a loader was started: workers start, caches are cold."""
ACCUMULATED = 4
"""Several batches made one optimizer step."""

SPLIT = ("data_wait", "transfer", "forward", "backward", "optimizer", "checkpoint", "logging")


class StepFacts(Record):
    """What is true of a process that trains."""

    version: int = VERSION
    host: str
    rank: int
    world_size: int = 1
    pid: int
    device: str = "cpu"
    device_name: str = ""
    threads: int = 0
    """torch's own for operators."""
    cpus: int = 0
    """That this process may run on."""
    torch: str = ""
    is_compiled: bool = False
    autocast: str = ""
    """The data type of automatic mixed precision; empty without."""
    parameters: int = 0
    parameter_bytes: int = 0
    started: float = 0.0
    loaders: tuple[Mapping[str, Any], ...] = ()
    """One per kind of DataLoader: batch_size, num_workers, pin_memory, prefetch_factor,
    persistent_workers, multiprocessing_context, dataset (its class), samples (if known), phase."""
    device_memory: Mapping[str, int] = {}
    """allocated_peak, reserved_peak and total bytes of the accelerator."""
    tail: Mapping[str, float] = {}
    """Seconds after the last step until the script's end: `total`, and the parts of a step."""
    is_cut: bool = False
    """Later steps are missing, as `reason` says."""
    reason: str = ""


class RankSteps(Record):
    """The steps of one process."""

    facts: StepFacts
    records: bytes

    def rows(self) -> Iterator[tuple[float, ...]]:
        """Each record as a tuple in the order of FIELDS."""
        return _FORMAT.iter_unpack(self.records)


def pack(values: tuple[float, ...]) -> bytes:
    """One record, from the values in the order of FIELDS."""
    return _FORMAT.pack(*values)


def steps_dir(profiler_dir: str) -> str:
    return f"{profiler_dir}/stoker/steps"


def steps_file(profiler_dir: str, *, host: str, rank: int, pid: int) -> str:
    return f"{steps_dir(profiler_dir)}/{host}_{rank:05}_{pid}.steps"


def write_facts(steps: str, facts: StepFacts) -> None:
    """Replaces what is known of the process that writes `steps`.

    Raises:
        OSError: it cannot be written.
    """
    write_atomically(steps.removesuffix(".steps") + ".json", dumps(facts.__dict__))


def read_steps(profiler_dir: str) -> list[RankSteps]:
    """All processes that trained, by host, rank and start; what cannot be read is skipped."""
    folder = steps_dir(profiler_dir)
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    found = [_read(f"{folder}/{name}") for name in names if name.endswith(".steps")]
    kept = [steps for steps in found if steps is not None and steps.records]
    return sorted(kept, key=lambda s: (s.facts.host, s.facts.rank, s.facts.started))


def _read(file: str) -> RankSteps | None:
    facts = _read_facts(file)
    try:
        with open(open_regular(file), "rb") as opened:
            content = opened.read(8 * READ_LIMIT_BYTES)
    except OSError:
        return None
    whole = len(content) // RECORD_BYTES * RECORD_BYTES  # the last one may be half written
    return RankSteps(facts=facts, records=content[:whole])


def _read_facts(file: str) -> StepFacts:
    # From the right: a host's name may contain underscores.
    parts = os.path.basename(file).removesuffix(".steps").rsplit("_", 2)
    host, rank, pid = parts if len(parts) == 3 else (parts[0], "", "")
    known: dict[str, Any] = {
        "host": host,
        "rank": int(rank) if rank.isdigit() else 0,
        "pid": int(pid) if pid.isdigit() else 0,
    }
    try:
        read = read_object(file.removesuffix(".steps") + ".json")
    except ConfigInvalid:
        read = {}
    # A newer version may know more; a value of another kind is as good as missing.
    usual = vars(StepFacts(**known))
    fitting = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in read.items()
        if name in usual and isinstance(value, _KINDS.get(type(usual[name]), type(usual[name])))
    }
    return StepFacts(**{**known, **fitting})

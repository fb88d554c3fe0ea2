"""Writing one step: tensors straight from memory, then the index that makes them visible."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stoker.contract.files import remove_file
from stoker.contract.upload_markers import temporary_path
from stoker.debugging.reductions import ABSOLUTE, make_reductions
from stoker.debugging.step_tensors import Mode
from stoker.debugging.tensors.appended_files import AppendedFile, BufferedFile, GatheredFile
from stoker.debugging.tensors.encoding import DTYPE_CODES, StepEncoder
from stoker.debugging.tensors.layout import events_file, index_file, reduction_name

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedStep:
    """The tensors of one worker at one step. Arrays are written from where they are, not copied.

    Example:
        >>> SavedStep(step=20, mode="TRAIN", mode_step=18, tensors={"Net_fc.weight": weight})
    """

    step: int
    """The global one, over all modes."""
    mode: Mode
    mode_step: int
    tensors: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    reductions: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Tensor → name of a reduction (`abs_mean`, `l2_norm`, …) → its value."""
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Of tensors that are not saved themselves."""
    wall_time: float | None = None
    """Seconds since 1970; None means when it is written."""

    @property
    def size_bytes(self) -> int:
        """How much memory it holds."""
        return sum(array.nbytes for array in self.tensors.values())


MOST_BYTES = (2 << 30) - (1 << 20)
"""Of one tensor: protobuf reads no message of 2 GiB or more."""
DIRECT_BYTES = 4 << 20
"""A step with that much goes past the page cache."""
_SMALL_BYTES = 4 << 10
INSTEAD = ("min", "max", "mean", "std", "abs_mean", "l2_norm")
"""What is saved of a tensor that is too large."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """What became of a step."""

    size_bytes: int
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Tensors that the format cannot hold → why."""


def write_step(folder: str, worker: str, step: SavedStep) -> Written:
    """Writes a step as smdebug does. It is visible as a whole, once this returns, or not at all.

    Args:
        folder: of the saved tensors; made when it is missing.
        worker: `worker_0` for a single process.
        step: what to save. One without any tensor leaves no file.

    Raises:
        OSError: the disk is full, the folder cannot be written, …; nothing is left behind.
    """
    draft = _Draft(step)
    meta: dict[str, str | int] = {"mode": step.mode, "mode_step": step.mode_step}
    events = events_file(step.step, worker)
    index_path = f"{folder}/{index_file(step.step, worker)}"
    size_bytes = 0
    if draft.has_records:
        meta["event_file_name"] = events
        size_bytes = _write_events(f"{folder}/{events}", draft, index_path)
    elif not draft.shapes:
        return Written(size_bytes=0, left_out=draft.left_out)
    index = json.dumps(
        {"meta": meta, "tensor_payload": draft.locations, "shape_payload": draft.shapes}
    )
    try:
        # Last: readers find a step by its index.
        write_whole(index_path, index)
    except OSError:
        _discard(f"{folder}/{events}")
        raise
    return Written(size_bytes=size_bytes + len(index), left_out=draft.left_out)


def write_whole(path: str, content: str) -> None:
    """Writes a file that no reader sees half of.

    Not synced to the disk: that would take longer than the step itself, and a file that a power
    cut has halved is noticed when it is read.
    """
    _write_by(GatheredFile, path, lambda file: file.append(content.encode()))


class _Draft:
    """The records of a step in the order of the file, and what the index says of them."""

    def __init__(self, step: SavedStep) -> None:
        self._encoder = StepEncoder(
            step=step.step,
            mode=step.mode,
            mode_step=step.mode_step,
            wall_time=time.time() if step.wall_time is None else step.wall_time,
        )
        self.left_out: dict[str, str] = {}
        self._shapes = dict(step.shapes)
        self._reductions = {name: dict(of) for name, of in step.reductions.items()}
        self._arrays = {
            n: a for n, t in step.tensors.items() if (a := self._accept(n, t)) is not None
        }
        self.locations: list[dict[str, Any]] = []

    @property
    def has_records(self) -> bool:
        return bool(self._arrays) or any(self._reductions.values())

    @property
    def shapes(self) -> list[dict[str, Any]]:
        # Not of saved tensors: they tell it themselves, and smdebug's reader would lose the value.
        shapes = {n: s for n, s in self._shapes.items() if n not in self._arrays}
        return [
            {"tensorname": name, "originalname": name, "shape": list(shape)}
            for name, shape in shapes.items()
        ]

    @property
    def content_bytes(self) -> int:
        """Of the arrays alone."""
        return sum(array.nbytes for array in self._arrays.values())

    def write(self, file: AppendedFile) -> None:
        encoder = self._encoder
        self.locations = []
        for name, array in self._arrays.items():
            start = file.size_bytes
            if array.dtype.kind == "U":
                file.append(encoder.text_record(name, array))
            else:
                head = encoder.head(name, array.dtype, array.shape)
                if array.nbytes <= _SMALL_BYTES:
                    # In one piece: of a tiny net the pieces cost more than the content.
                    file.append(b"".join((head, array.tobytes(), encoder.tail)))
                else:
                    # Contiguous here, one at a time: it may be a copy.
                    content = np.ascontiguousarray(array)
                    file.append(head)
                    file.append(content.reshape(-1).view(np.uint8).data)
                    file.append(encoder.tail)
            self._locate(name, start, file.size_bytes)
        scalar = np.dtype(np.float64)
        for name, reductions in self._reductions.items():
            for reduction, value in reductions.items():
                start = file.size_bytes
                record = reduction_name(reduction, name)
                content_bytes = np.float64(value).tobytes()
                file.append(encoder.head(record, scalar, ()) + content_bytes + encoder.tail)
                self._locate(record, start, file.size_bytes)

    def _locate(self, name: str, start: int, end: int) -> None:
        self.locations.append({"tensorname": name, "start_idx": start, "length": end - start})

    def _accept(self, name: str, array: NDArray[Any]) -> NDArray[Any] | None:
        """The array in a form that can be written; None where there is none."""
        if array.size == 0:
            self._shapes[name] = array.shape  # smdebug's reader fails at a record without content
            return None
        if array.dtype.kind in "UO" and array.ndim == 1:
            return array.astype(np.str_)
        if array.dtype.kind == "f" and array.dtype.itemsize > 8:
            array = array.astype(np.float64)
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
        if array.dtype not in DTYPE_CODES:
            self.left_out[name] = f"smdebug's format has no {array.dtype}"
            return None
        if array.nbytes > MOST_BYTES:
            self.left_out[name] = (
                f"it has {array.nbytes / (1 << 30):.1f} GiB, and 2 GiB is the most that the format"
                f" takes: its shape and its {', '.join(INSTEAD)} are saved instead"
            )
            self._shapes[name] = array.shape
            possible = [n for n in INSTEAD if n in ABSOLUTE or array.dtype.kind != "c"]
            self._reductions.setdefault(name, {}).update(make_reductions(array, possible))
            return None
        return array


def _write_events(path: str, draft: _Draft, index_path: str) -> int:
    kind = BufferedFile if draft.content_bytes >= DIRECT_BYTES else GatheredFile
    return _write_by(kind, path, draft.write, outdates=index_path)


def _write_by(
    kind: type[BufferedFile] | type[GatheredFile],
    path: str,
    write: Callable[[AppendedFile], None],
    *,
    outdates: str = "",
) -> int:
    unnamed = temporary_path(path)
    try:
        # Most often the folder is there: to try is cheaper than to ask.
        try:
            opened = kind(unnamed)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            opened = kind(unnamed)
        with opened as file:
            write(file)
        if outdates:
            # A resumed run may write a step again: an old index must not show the new file.
            remove_file(outdates)
        os.replace(unnamed, path)
    except BaseException:
        _discard(unnamed)
        raise
    return file.size_bytes


def _discard(path: str) -> None:
    """Removes a file, and its folder if nothing else is in it."""
    remove_file(path)
    with suppress(OSError):
        os.rmdir(os.path.dirname(path))

"""Host memory for the tensors of a step, used again once they are written."""

from __future__ import annotations

import ctypes
import mmap
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

ALIGNMENT_BYTES = 64  # a cache line
_SMALLEST_BYTES = 1 << 20
_HUGE_PAGES_BYTES = 4 << 20
_WIPE_ON_FORK = 18
"""Linux's MADV_WIPEONFORK, which Python has no name for: children get zeros in its place."""
_POPULATE_WRITE = 23
"""Linux's MADV_POPULATE_WRITE, since 5.14."""
_POPULATED_BYTES = 4 << 20
# A disk that hangs would hold the training up for ever: then steps are dropped.
_PATIENCE_SECONDS = 60.0

# What NumPy, and so the files, can hold; the rest is widened.
_KEPT = {
    *(torch.float16, torch.float32, torch.float64, torch.complex64, torch.complex128, torch.bool),
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
}
_WIDENED = {torch.bfloat16, torch.complex32} | {
    dtype
    for name, dtype in vars(torch).items()
    if name.startswith("float8_") and isinstance(dtype, torch.dtype)
}


def can_be_saved(dtype: torch.dtype) -> bool:
    """torch has types, such as those of four bits, that it cannot even copy."""
    return dtype in _KEPT or dtype in _WIDENED


def saved_type(dtype: torch.dtype) -> torch.dtype:
    """The type a tensor is saved as: bfloat16 and float8 become float32, which holds them."""
    if dtype in _KEPT:
        return dtype
    return torch.complex64 if dtype.is_complex else torch.float32


def padded_bytes(size_bytes: int) -> int:
    """What a tensor takes in an arena."""
    return -(-size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


class _Place(NamedTuple):
    chunk: int
    offset_bytes: int
    shape: torch.Size
    dtype: torch.dtype
    view: torch.Tensor


class Arena:
    """Room for one step. The next step that has the same tensors finds the same views."""

    def __init__(self, *, is_pinned: bool) -> None:
        self._is_pinned = is_pinned
        self._chunks: list[torch.Tensor] = []
        self._chunk = self._offset_bytes = 0
        self._places: dict[str, _Place] = {}
        # Gradients of two devices come in two threads. A signal handler may come in between.
        self._lock = threading.RLock()
        self.used_bytes = 0
        """Of the step that has it."""

    @property
    def size_bytes(self) -> int:
        return sum(chunk.numel() for chunk in self._chunks)

    def reserve(self, size_bytes: int) -> None:
        """Makes sure that this much is there in one piece, now and not bit by bit."""
        with self._lock:
            if size_bytes and (not self._chunks or self._left_bytes() < size_bytes):
                self._grow(size_bytes)

    def room(self, name: str, shape: torch.Size, dtype: torch.dtype) -> torch.Tensor:
        """An uninitialised tensor on the host, the caller's until `reset`."""
        with self._lock:
            return self._room(name, shape, dtype)

    def reset(self) -> None:
        """All of it is free again."""
        self._chunk = self._offset_bytes = self.used_bytes = 0

    def _room(self, name: str, shape: torch.Size, dtype: torch.dtype) -> torch.Tensor:
        size_bytes = shape.numel() * dtype.itemsize
        taken_bytes = padded_bytes(size_bytes)
        if not self._chunks or self._left_bytes() < taken_bytes:
            self._grow(taken_bytes)
        place = self._places.get(name)
        here = (self._chunk, self._offset_bytes, shape, dtype)
        if place is None or place[:4] != here:
            # Made in inference mode, a view could not be written to outside of it, by later steps.
            with torch.inference_mode(False):
                flat = self._chunks[self._chunk][self._offset_bytes :][:size_bytes]
                self._places[name] = place = _Place(*here, flat.view(dtype).view(shape))
        self._offset_bytes += taken_bytes
        self.used_bytes += taken_bytes
        return place.view

    def _left_bytes(self) -> int:
        return self._chunks[self._chunk].numel() - self._offset_bytes

    def _grow(self, size_bytes: int) -> None:
        while self._chunk + 1 < len(self._chunks):
            self._chunk, self._offset_bytes = self._chunk + 1, 0
            if self._left_bytes() >= size_bytes:
                return
        # A quarter more at least: a step that grows by one tensor at a time would make a chunk for
        # each.
        wanted_bytes = max(size_bytes, self.size_bytes // 4, _SMALLEST_BYTES)
        self._chunks.append(_allocate(wanted_bytes, is_pinned=self._is_pinned))
        self._chunk, self._offset_bytes = len(self._chunks) - 1, 0


def _allocate(size_bytes: int, *, is_pinned: bool) -> torch.Tensor:
    # Made in inference mode, it could not be written to outside of it.
    with torch.inference_mode(False):
        if is_pinned:
            return torch.empty(size_bytes, dtype=torch.uint8, device="cpu", pin_memory=True)
        # Private: of shared memory the system makes no huge pages.
        memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if size_bytes >= _HUGE_PAGES_BYTES:
            # Else the first step that uses it is slowed by one fault for each 4 KiB.
            _advise(memory, mmap.MADV_HUGEPAGE)
        # Else a step after each fork of a DataLoader copies all pages. (Not MADV_DONTFORK: a
        # child that frees it would unmap what it has at the same address by then.)
        _advise(memory, _WIPE_ON_FORK)
        content = np.frombuffer(memory, dtype=np.uint8)
        if size_bytes >= _HUGE_PAGES_BYTES:
            _populate(content)
        return torch.from_numpy(content)


def _advise(memory: mmap.mmap, advice: int) -> None:
    with suppress(OSError):  # a kernel without that
        memory.madvise(advice)


def _populate(content: NDArray[np.uint8]) -> None:
    """Has the system provide the memory now, in another thread.

    The first use of a page takes the training longer than the copy into it, on a virtual machine
    ten times as long. Nothing is written: the step may be copied into it meanwhile.
    """
    # Not `mmap.madvise`, which keeps the interpreter from all other threads.
    madvise = ctypes.CDLL(None).madvise

    def populate(content: NDArray[np.uint8]) -> None:
        # Piece by piece: meanwhile no other thread may change the process's memory map.
        for start in range(0, content.nbytes, _POPULATED_BYTES):
            piece = content[start : start + _POPULATED_BYTES]
            place, size_bytes = ctypes.c_void_p(piece.ctypes.data), ctypes.c_size_t(piece.nbytes)
            if madvise(place, size_bytes, _POPULATE_WRITE):
                return  # an older kernel: then the first use takes its time

    with suppress(RuntimeError):  # no thread can be started
        threading.Thread(
            target=populate, args=(content,), name="stoker-arena", daemon=True
        ).start()


class Pool:
    """Arenas within a bound: those of steps that wait to be written, and those that are free.

    A step that is larger than the bound alone is taken when no other waits.
    """

    def __init__(self, limit_bytes: int, when_full: Literal["wait", "drop"]) -> None:
        self._limit_bytes = limit_bytes
        self._patience_seconds = _PATIENCE_SECONDS if when_full == "wait" else 0.0
        self._changed = threading.Condition()
        self._in_use: list[Arena] = []
        self._free: list[Arena] = []
        self._is_stuck = False
        """The training does not wait for a disk that hangs a second time."""
        self.waited = 0
        """How often the training had to wait for the disk."""

    @property
    def size_bytes(self) -> int:
        """Of all that it holds. Arenas grow while a step has them, so it is added up each time."""
        return _size_bytes(self._in_use) + _size_bytes(self._free)

    def take(self, expected_bytes: int = 0) -> Arena | None:
        """An empty arena; None if earlier steps use all memory and the wait is over.

        Args:
            expected_bytes: what the step will need, as far as it is known.
        """
        with self._changed:
            if not self._has_room(expected_bytes):
                self.waited += 1
                patience_seconds = 0.0 if self._is_stuck else self._patience_seconds
                if not self._changed.wait_for(
                    lambda: self._has_room(expected_bytes), patience_seconds
                ):
                    self._is_stuck = True
                    return None
            arena = self._choose(expected_bytes) or self._make(expected_bytes)
            self._in_use.append(arena)
            return arena

    def give_back(self, arena: Arena) -> None:
        """Its step is written. Called by the writer's thread."""
        with self._changed:
            # The disk works again, so the training may wait for it again.
            self._is_stuck = False
            arena.reset()
            self._in_use.remove(arena)
            self._free.append(arena)
            # Not the last of all: the steps would have to touch new memory each time.
            while self.size_bytes > self._limit_bytes and len(self._free) > (not self._in_use):
                self._drop_one()
            self._changed.notify_all()

    def _has_room(self, expected_bytes: int) -> bool:
        """What is free does not count: it is used, or dropped."""
        next_bytes = max(expected_bytes, _SMALLEST_BYTES)
        return not self._in_use or _size_bytes(self._in_use) + next_bytes <= self._limit_bytes

    def _choose(self, expected_bytes: int) -> Arena | None:
        """The smallest that is large enough: each of them would grow to the largest step else."""
        chosen = _fitting(self._free, expected_bytes)
        if chosen is None:
            return None
        self._free.remove(chosen)
        return chosen if chosen.size_bytes >= expected_bytes else None

    def _make(self, expected_bytes: int) -> Arena:
        while self._free and self.size_bytes + expected_bytes > self._limit_bytes:
            self._drop_one(expected_bytes)
        arena = Arena(is_pinned=torch.cuda.is_initialized())  # type: ignore[no-untyped-call]
        arena.reserve(expected_bytes)
        return arena

    def _drop_one(self, more_bytes: int = 0) -> None:
        """Gives memory back to the system, as it is more than the bound."""
        dropped = _fitting(self._free, self.size_bytes + more_bytes - self._limit_bytes)
        if dropped is not None:
            self._free.remove(dropped)


def _size_bytes(arenas: Sequence[Arena]) -> int:
    return sum(arena.size_bytes for arena in arenas)


def _fitting(arenas: Sequence[Arena], size_bytes: int) -> Arena | None:
    """The smallest that has so much, or else the largest of all."""
    by_size = sorted(arenas, key=lambda arena: arena.size_bytes)
    enough = [arena for arena in by_size if arena.size_bytes >= size_bytes]
    return next(iter([*enough, *reversed(by_size)]), None)

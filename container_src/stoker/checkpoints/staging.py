"""The memory a checkpoint is copied to before it is written: made once, touched, used again.

A copy into fresh pages costs five times one into pages the process has used before.
"""

from __future__ import annotations

import ctypes
import mmap
from contextlib import suppress

import torch

from stoker.checkpoints.shards import Place

_SLACK_BYTES = 1024 * 1024  # the part that is JSON grows and shrinks from save to save
_PAGE_BYTES = 2 * 1024 * 1024  # a huge page: one fault instead of 512
_WIPE_ON_FORK = 18
"""Linux's MADV_WIPEONFORK, which Python has no name for. A loader's processes get zeros in its
place, so that none of its pages is copied; without the place, what a child frees there could be
something newer."""


class Staging:
    """One block of memory as large as the largest file so far; pinned where there is a GPU."""

    def __init__(self) -> None:
        self._bytes = torch.empty(0, dtype=torch.uint8)

    def reserve(self, size_bytes: int) -> None:
        """Makes room, and touches it; keeps what is there if that is enough."""
        if size_bytes <= len(self._bytes):
            return
        self._bytes = torch.empty(0, dtype=torch.uint8)  # first: never two at a time
        whole = -(-(size_bytes + _SLACK_BYTES) // _PAGE_BYTES) * _PAGE_BYTES
        # Pinned, a copy from the GPU needs no buffer in between and the host need not wait for it.
        self._bytes = _make_pinned(whole) if torch.cuda.is_available() else _make_touched(whole)

    def memory(self, size_bytes: int) -> memoryview:
        """The beginning of it, as bytes."""
        return memoryview(self._bytes.numpy())[:size_bytes]  # type: ignore[arg-type] # it is one

    def tensor(self, place: Place) -> torch.Tensor:
        """A tensor whose memory is in it."""
        part = self._bytes[place.start : place.start + place.size_bytes]
        if not len(part):  # an empty slice may lie anywhere, aligned or not
            return torch.empty(place.shape, dtype=place.dtype)
        return part.view(place.dtype).view(place.shape)

    def copy(self, tensor: torch.Tensor, place: Place) -> None:
        """Copies a tensor to its place. From a GPU this only queues it on the current stream."""
        if tensor.device.type == "cpu" and tensor.is_contiguous():
            # On one core and without the GIL: torch's own copy would take all cores from the
            # forward pass that runs meanwhile.
            target = self._bytes.data_ptr() + place.start
            ctypes.memmove(target, tensor.data_ptr(), place.size_bytes)
        else:
            self.tensor(place).copy_(tensor, non_blocking=True)


def _make_touched(size_bytes: int) -> torch.Tensor:
    # Private: of shared memory most kernels make no huge pages.
    memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for advice in (mmap.MADV_HUGEPAGE, _WIPE_ON_FORK):
        with suppress(OSError):  # a kernel that knows no such advice
            memory.madvise(advice)
    staged = torch.frombuffer(memory, dtype=torch.uint8)
    # Touches every page: a first touch in the copy would be the training's time.
    ctypes.memset(staged.data_ptr(), 0, size_bytes)
    return staged


def _make_pinned(size_bytes: int) -> torch.Tensor:
    return torch.empty(size_bytes, dtype=torch.uint8, pin_memory=True)

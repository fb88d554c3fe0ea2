"""One trace as a file that TensorBoard's profiler plug-in opens: bounded, packed, never half."""

from __future__ import annotations

import os
import tempfile
import time
import zlib
from typing import TYPE_CHECKING, Protocol

from stoker.contract.upload_markers import IGNORED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOST_BYTES = 256 * 1024 * 1024
"""Of a trace before it is packed: more than that, no browser and no plug-in opens."""

_GZIP = 16 + zlib.MAX_WBITS
_TAIL_BYTES = 64
_BLOCK_BYTES = 1024 * 1024


class Exported(Protocol):
    """What a torch.profiler.profile can do at the end of a window."""

    def export_chrome_trace(self, path: str) -> None:
        """Writes JSON."""


class TraceRefused(Exception):
    """There is no usable trace, for the reason given."""


def write_trace(
    profile: Exported, folder: str, *, worker: str, most_bytes: int = MOST_BYTES
) -> tuple[str, bool]:
    """Writes `<worker>.<time>.pt.trace.json.gz`.

    Args:
        profile: at the end of its window.
        folder: one run of the plug-in, which reads it once: all workers of a window in one
            folder, each window in its own.
        worker: `<host>_<rank>`, by which the plug-in groups them.
        most_bytes: of the trace before it is packed; stacks are left out of a larger one.

    Returns:
        The file, and whether stacks are in it.

    Raises:
        TraceRefused: it is too large even so, or torch could not write it.
        OSError: the disk is full, or the folder is not ours.
    """
    os.makedirs(folder, exist_ok=True)
    file = os.path.join(folder, f"{worker}.{time.time_ns()}.pt.trace.json.gz")
    with tempfile.NamedTemporaryFile(prefix="stoker-trace-", suffix=".json") as raw:
        profile.export_chrome_trace(raw.name)
        _require_whole(raw.name)
        with_stacks = os.path.getsize(raw.name) <= most_bytes
        try:
            # Neither the uploader nor the plug-in reads a file of this name.
            _pack(raw.name, file + IGNORED, most_bytes=most_bytes, with_stacks=with_stacks)
            os.replace(file + IGNORED, file)
        finally:
            _remove(file + IGNORED)
    return file, with_stacks


def _require_whole(raw: str) -> None:
    # torch's writer says nothing when the disk is full.
    with open(raw, "rb") as trace:
        trace.seek(max(0, os.path.getsize(raw) - _TAIL_BYTES))
        if not trace.read().rstrip().endswith(b"}"):
            raise TraceRefused("torch wrote half a trace: is the temporary folder full?")


def _pack(raw: str, target: str, *, most_bytes: int, with_stacks: bool) -> None:
    room = most_bytes
    packer = zlib.compressobj(1, zlib.DEFLATED, _GZIP)  # level 1: training waits for this
    with open(raw, "rb") as trace, open(target, "wb") as packed:
        blocks = iter(lambda: trace.read(_BLOCK_BYTES), b"")
        for block in blocks if with_stacks else without_stacks(trace):
            room -= len(block)
            if room < 0:
                raise TraceRefused(f"it is larger than {most_bytes} bytes even without stacks")
            packed.write(packer.compress(block))
        packed.write(packer.flush())


def without_stacks(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The trace without its Python frames, most of its size; read line by line.

    An event begins with a line `  {` and ends with `  },`; what is inside is indented further.
    The last one, the end of the recording, is never a frame, so no comma is left over.
    """
    event: list[bytes] = []
    for line in lines:
        event.append(line)
        if event[0] != b"  {\n" or line in (b"  },\n", b"  }\n"):
            if not any(b'"cat": "python_function"' in part for part in event[1:4]):
                yield b"".join(event)
            event = []
    yield b"".join(event)


def _remove(file: str) -> None:
    try:
        os.unlink(file)
    except OSError:
        return

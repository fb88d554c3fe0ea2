"""Checksums of files, piece by piece, so that all cores share the work."""

from __future__ import annotations

import os
import zlib
from concurrent.futures import ThreadPoolExecutor

from stoker.contract.files import open_regular
from stoker.errors import CheckpointFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import ReadableBuffer

    Checksum = Callable[[ReadableBuffer], int]

PIECE_BYTES = 16 * 1024 * 1024  # so that several cores work on one file
_THREADS = min(4, os.cpu_count() or 1)
_KNOWN: dict[str, Checksum] = {"crc32": zlib.crc32}
try:
    from crc32c import crc32c

    _KNOWN["crc32c"] = crc32c  # five times as fast as zlib's
except ImportError:  # a host without it still reads and writes
    pass

PREFERRED = "crc32c" if "crc32c" in _KNOWN else "crc32"


def checksum_named(name: str) -> Checksum:
    """The function of a manifest's `checksum` field.

    Raises:
        CheckpointFailed: it is not installed here. The checkpoint may well be valid, so it must
            not be passed over in silence.
    """
    if name in _KNOWN:
        return _KNOWN[name]
    raise CheckpointFailed(
        f"a checkpoint has {name!r:.40} checksums, but known here are: {', '.join(_KNOWN)}",
        fix="pip install crc32c"
        if name == "crc32c"
        else "use the version of stoker that wrote it",
    )


def hexadecimal(number: int) -> str:
    return f"{number:08x}"


def checksums_of(buffer: memoryview, name: str) -> list[str]:
    """One checksum for each piece of what is in memory."""
    function = checksum_named(name)
    pieces = [buffer[at : at + PIECE_BYTES] for at in range(0, len(buffer), PIECE_BYTES)]
    with ThreadPoolExecutor(_THREADS) as pool:
        return [hexadecimal(number) for number in pool.map(function, pieces)]


def checksums_of_file(path: str, name: str) -> list[str]:
    """One checksum for each piece of a file, in memory of a few pieces only."""
    function = checksum_named(name)

    def read(at: int) -> str:
        return hexadecimal(function(memoryview(os.pread(file.fileno(), PIECE_BYTES, at))))

    with open(open_regular(path), "rb") as file, ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(read, range(0, os.fstat(file.fileno()).st_size, PIECE_BYTES)))

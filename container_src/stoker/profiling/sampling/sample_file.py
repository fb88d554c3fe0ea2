"""The files of samples: a minute each, as SageMaker has them, and never more than so much disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from stoker.bus.system_samples import FOLDER, FURTHER_FOLDER, SAGEMAKERS, samples_file
from stoker.contract.files import open_regular
from stoker.profiling.sampling.gpus import Event

MOST_BYTES = 512 * 1024 * 1024
"""Of all samples of a host. Half of it is used at the interval asked for, half of the rest at
twice the interval, and so on: an hour at 500 ms takes about 30 MB."""

LEAST_FREE_BYTES = 64 * 1024 * 1024
"""What is left of the disk to the job."""

_LOOK_EVERY = 64
"""Samples between two looks at the free space."""


class SampleFiles:
    """Appends samples to the file of their minute. Never raises."""

    def __init__(self, folder: str, node: str, *, most_bytes: int = MOST_BYTES) -> None:
        self.trouble = ""
        """Why the last sample was not written."""
        self._folder = folder
        self._node = node
        self._most_bytes = most_bytes
        self._written = 0
        self._count = 0
        self._is_full = False
        self._open: dict[str, tuple[str, int]] = {}
        """Folder → path and descriptor of the file of this minute."""

    @property
    def slowness(self) -> int:
        """By how much the interval is to be stretched, so that the disk is never full of it."""
        left = self._most_bytes - self._written
        slowness = 1
        while left * 2 * slowness < self._most_bytes and slowness < 1 << 20:
            slowness *= 2
        return slowness

    def write(self, events: Sequence[Event], timestamp: float) -> None:
        """Writes a sample, each file in one piece, so that a reader never sees half a line."""
        parts: dict[str, list[str]] = {FOLDER: [], FURTHER_FOLDER: []}
        for kind, name, dimension, value in events:
            parts[FOLDER if dimension in SAGEMAKERS else FURTHER_FOLDER].append(
                f'{{"Type":"{kind}","Name":"{_escaped(name)}","Dimension":"{dimension}",'
                f'"Value":{value:.7g},"NodeId":"{self._node}","Timestamp":{timestamp:.3f}}}\n'
            )
        contents = {
            folder: "".join(lines).encode("utf-8", "replace") for folder, lines in parts.items()
        }
        if self._written + sum(map(len, contents.values())) > self._most_bytes:
            self.trouble = f"the samples fill {self._most_bytes >> 20} MB: no more are written"
            return
        try:
            self._require_space()
            for folder, content in contents.items():
                self._append(folder, content, timestamp)
            self.trouble = ""
        except OSError as error:
            self.trouble = f"{error.strerror}: {self._folder}"
            self.close()

    def close(self) -> None:
        """Closes the files of the minute."""
        for _, descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def _append(self, folder: str, content: bytes, timestamp: float) -> None:
        path = samples_file(self._folder, timestamp, self._node, folder=folder)
        before, descriptor = self._open.get(folder, ("", -1))
        if path != before:
            if self._open.pop(folder, None) is not None:
                os.close(descriptor)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            descriptor = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            self._open[folder] = (path, descriptor)
        done = os.write(descriptor, content)
        if done < len(content):
            # The disk has just become full. The readers bear a last line that is cut, but none
            # in the middle.
            size_bytes = os.fstat(descriptor).st_size
            os.ftruncate(descriptor, max(0, size_bytes - done))
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._written += done

    def _require_space(self) -> None:
        self._count += 1
        if self._count % _LOOK_EVERY == 1 or self._is_full:
            os.makedirs(self._folder, exist_ok=True)
            status = os.statvfs(self._folder)
            self._is_full = status.f_bavail * status.f_frsize < LEAST_FREE_BYTES
        if self._is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _escaped(name: str) -> str:
    """A process may call itself anything."""
    if name.isascii() and name.isprintable() and '"' not in name and "\\" not in name:
        return name
    kept = (c if c.isprintable() and c not in '"\\' else "?" for c in name)
    return "".join(kept)

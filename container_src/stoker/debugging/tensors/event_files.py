"""The files that hold the tensors, mapped into memory: nothing is read before it is looked at."""

from __future__ import annotations

import mmap
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stoker.contract.files import open_regular
from stoker.debugging.tensors.decoding import Damaged, Fields, read_record, to_array, to_dtype
from stoker.errors import TensorsUnreadable

FIX = "copy the folder again, or leave this step out; the other steps can still be read"
"""For a step whose files are damaged."""


class Location:
    """Where a tensor is: a record of a file."""

    __slots__ = ("length", "start")

    def __init__(self, start: int, length: int) -> None:
        self.start, self.length = start, length


class EventFile:
    """One file. It has got its name when it was whole, and never changes: so it can be mapped.

    A process that shortens it meanwhile would end ours (SIGBUS); no writer does that.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._content: memoryview | None = None

    def fields(self, name: str, location: Location) -> Fields:
        """A tensor's message, taken apart.

        Raises:
            TensorsUnreadable: the file is missing or damaged.
        """
        content = self._content if self._content is not None else self._map()
        try:
            return read_record(content, location.start, location.length, name)
        except Damaged as damage:
            raise self._unreadable(name, str(damage)) from None

    def dtype(self, name: str, location: Location) -> np.dtype[Any]:
        """Of a tensor, without its content.

        Raises:
            TensorsUnreadable: the file is missing or damaged.
        """
        try:
            return to_dtype(self.fields(name, location))
        except Damaged as damage:
            raise self._unreadable(name, str(damage)) from None

    def array(self, name: str, location: Location) -> NDArray[Any]:
        """The tensor; read-only.

        Raises:
            TensorsUnreadable: the file is missing or damaged.
        """
        try:
            return to_array(self.fields(name, location))
        except Damaged as damage:
            raise self._unreadable(name, str(damage)) from None

    def _map(self) -> memoryview:
        try:
            descriptor = open_regular(self.path, follow_links=True)
        except (OSError, ValueError) as error:  # ValueError: a name that no file can have
            reason = error.strerror if isinstance(error, OSError) else error
            raise TensorsUnreadable(f"{self.path} cannot be read: {reason}", fix=FIX) from None
        try:
            content = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
        except ValueError:
            self._content = memoryview(b"")  # an empty file cannot be mapped
        except OSError as error:
            raise TensorsUnreadable(
                f"{self.path} cannot be read: {error.strerror}", fix=FIX
            ) from None
        else:
            self._content = memoryview(content)
        finally:
            os.close(descriptor)
        return self._content

    def _unreadable(self, name: str, damage: str) -> TensorsUnreadable:
        return TensorsUnreadable(f"tensor {name} in {self.path} is damaged: {damage}", fix=FIX)

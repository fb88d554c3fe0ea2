"""The file of one rank: safetensors, laid out so that a buffer in memory is the file.

8 bytes     length of the header
header      JSON: name → dtype, shape, place; the rest of the state under `__metadata__`
tensors     without gaps, widest elements first, so that each is aligned
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import torch

from stoker.contract.files import open_regular

_ALIGNMENT_BYTES = 4096
_METADATA = "__metadata__"
_OURS = "stoker"
_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint64: "U64",
    torch.uint32: "U32",
    torch.uint16: "U16",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a tensor is in the file."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    """In bytes, from the beginning of the file."""

    @property
    def size_bytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """A whole file: its head as bytes, and the place of each tensor, in the order of the file."""

    head: bytes
    places: Mapping[str, Place]
    size_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Entries:
    """What the head of a file says about its tensors, in the order of the file."""

    offsets: dict[str, tuple[torch.dtype, torch.Size, int]]
    """Where each one is, in bytes from the first one."""
    text: str
    size_bytes: int


def is_storable(dtype: torch.dtype) -> bool:
    return dtype in _NAMES


def make_layout(tensors: Mapping[str, torch.Tensor], rest: dict[str, Any]) -> Layout:
    """Plans the file of some tensors and of whatever else is JSON."""
    entries = _arrange(tuple((name, t.dtype, t.shape) for name, t in tensors.items()))
    metadata = json.dumps({_OURS: _dumps(rest)})
    text = f'{{"{_METADATA}":{metadata}{entries.text}}}'.encode()
    head_bytes = -(-(8 + len(text)) // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
    # Filled with blanks, which JSON allows, up to a whole page: tensors begin aligned in memory
    # and on the disk.
    head = (head_bytes - 8).to_bytes(8, "little") + text.ljust(head_bytes - 8)
    places = _place(entries, head_bytes)
    return Layout(head=head, places=places, size_bytes=head_bytes + entries.size_bytes)


def parse_head(file: memoryview) -> tuple[dict[str, Place], dict[str, Any]]:
    """The places of the tensors in a file, and what else was saved.

    Raises:
        ValueError: it is not such a file.
    """
    try:
        head_bytes = 8 + int.from_bytes(file[:8], "little")
        header = json.loads(bytes(file[8:head_bytes]))
        places = _places(header, head_bytes)
        rest = json.loads(header[_METADATA][_OURS])
        if not all(isinstance(rest[part], dict) for part in ("own", "pieces", "state")):
            raise ValueError("it does not hold the state of a rank")
    except KeyError as error:
        raise ValueError(
            f"it is not a shard that Stoker wrote: {str(error)[:200]} is missing"
        ) from None
    except (TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"it is not a shard that Stoker wrote: {str(error)[:200]}") from None
    if any(p.start < head_bytes or p.start + p.size_bytes > len(file) for p in places.values()):
        raise ValueError("a tensor is outside the file")
    return places, rest


class MappedShard:
    """A file as memory: tensors in it cost nothing until they are copied.

    Private: what is written to it never reaches the file, but torch wants memory that could be.
    """

    def __init__(self, path: str, size_bytes: int) -> None:
        """Raises OSError: it cannot be read, or has another size."""
        with open(open_regular(path), "rb") as file:
            if file.seek(0, 2) != size_bytes:
                raise OSError(0, "it has another size")
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        self.places: dict[str, Place] = {}
        self.rest: dict[str, Any] = {}

    @property
    def memory(self) -> memoryview:
        return memoryview(self._map)

    def parse(self) -> None:
        """Reads the head. Raises ValueError: it is not such a file."""
        self.places, self.rest = parse_head(self.memory)

    def tensor(self, name: str) -> torch.Tensor:
        place = self.places[name]
        if not place.size_bytes:
            return torch.empty(place.shape, dtype=place.dtype)
        flat = torch.frombuffer(
            self._map, dtype=torch.uint8, offset=place.start, count=place.size_bytes
        )
        return flat.view(place.dtype).view(place.shape)


def _places(header: dict[str, Any], head_bytes: int) -> dict[str, Place]:
    def place(dtype: str, shape: Sequence[int], data_offsets: Sequence[int]) -> Place:
        start, end = data_offsets
        # Not isinstance: in Python a truth value is a number.
        if not all(type(number) is int and number >= 0 for number in (*shape, start, end)):
            raise ValueError(f"a tensor has the shape {shape!r:.80} at {data_offsets!r:.80}")
        if dtype not in _DTYPES:
            raise ValueError(f"a tensor has the type {dtype!r:.80}")
        found = Place(dtype=_DTYPES[dtype], shape=tuple(shape), start=head_bytes + start)
        if found.size_bytes != end - start:
            raise ValueError(f"a tensor of {found.size_bytes} bytes is in {end - start}")
        return found

    return {name: place(**entry) for name, entry in header.items() if name != _METADATA}


# From save to save the tensors stay as they are, and the training waits for this: asked again, it
# is remembered.
@lru_cache(maxsize=4)
def _arrange(tensors: tuple[tuple[str, torch.dtype, torch.Size], ...]) -> _Entries:
    offsets, header, position = {}, {}, 0
    # Widest elements first: each starts at a multiple of its own width without gaps.
    for name, dtype, shape in sorted(tensors, key=lambda tensor: -tensor[1].itemsize):
        end = position + prod(shape) * dtype.itemsize
        header[name] = {
            "dtype": _NAMES[dtype],
            "shape": list(shape),
            "data_offsets": [position, end],
        }
        offsets[name] = (dtype, shape, position)
        position = end
    text = f",{_dumps(header)[1:-1]}" if header else ""
    return _Entries(offsets=offsets, text=text, size_bytes=position)


@lru_cache(maxsize=4)
def _place(entries: _Entries, head_bytes: int) -> Mapping[str, Place]:
    return {
        name: Place(dtype=dtype, shape=tuple(shape), start=head_bytes + offset)
        for name, (dtype, shape, offset) in entries.offsets.items()
    }


def _dumps(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))

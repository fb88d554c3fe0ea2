"""The manifest: what a checkpoint consists of. Written last, so its presence means "complete"."""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import asdict, dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, Literal

NAME = "manifest.json"
FORMAT = 1


class ManifestInvalid(Exception):
    """Its text says what is wrong; the checkpoint is passed over."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    """One file of a checkpoint."""

    name: str
    size_bytes: int
    checksums: tuple[str, ...]
    """Of each piece of 16 MiB, in order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """The metric that was passed to `best()`."""

    value: float
    mode: Literal["max", "min"] = "max"
    is_best: bool = False
    """Whether it was the best of its run when it was saved."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """Everything about a checkpoint but its tensors."""

    step: int
    epoch: int
    batch: int
    """Batches of the epoch that are done."""
    world_size: int
    shards: tuple[Shard, ...]
    checksum: str
    """Name of the function: crc32c, or crc32 where that is not installed."""
    parts: tuple[str, ...] = ()
    """Names of what was saved: model, optimizer …"""
    is_sharded: bool = False
    """Each rank holds pieces of the tensors (FSDP2), not the leader all of them."""
    metric: Metric | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    """The hyperparameters it was trained with; secret ones as a hash."""
    job: str = ""
    saved_at: str = ""
    """For people. Nothing is decided by it: clocks go back."""

    @property
    def size_bytes(self) -> int:
        return sum(shard.size_bytes for shard in self.shards)


def manifest_text(manifest: Manifest) -> str:
    """As it is written, with a seal over itself."""
    fields = {**asdict(manifest), "format": FORMAT}
    return json.dumps({**fields, "seal": _seal(fields)}, indent=1, sort_keys=True) + "\n"


def parse_manifest(text: str) -> Manifest:
    """Raises ManifestInvalid with the reason."""
    try:
        fields = json.loads(text)
        seal = fields.pop("seal")
        # Before the seal: a newer version may compute it in another way.
        if fields.pop("format") != FORMAT:
            raise ManifestInvalid("its manifest has a format this version does not know")
        if seal != _seal({**fields, "format": FORMAT}):
            raise ManifestInvalid("its manifest is damaged: the seal does not fit")
        return _from_fields(fields)
    except KeyError as error:
        raise ManifestInvalid(f"its manifest is damaged: {error} is missing") from None
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ManifestInvalid(f"its manifest is damaged: {str(error)[:200]}") from None


def _from_fields(fields: dict[str, Any]) -> Manifest:
    """Checks every type: the rest of the code relies on them."""
    named = _object(fields, _MANIFEST, needed=_NEEDED)
    found = [_object(shard, _SHARD, needed=_SHARD) for shard in _list(named["shards"], dict)]
    shards = tuple(
        Shard(**{**shard, "checksums": _list(shard["checksums"], str)}) for shard in found
    )
    # A name from a file is joined to a path: no `..`, no slash.
    if not all(_SHARD_NAME.fullmatch(shard.name) for shard in shards):
        raise ManifestInvalid("its manifest names files that no checkpoint has")
    if len({shard.name for shard in shards}) < len(shards):
        raise ManifestInvalid("its manifest names a file twice")
    metric = named.get("metric")
    if metric and _object(metric, _METRIC, needed=["value"]).get("mode", "max") not in (
        "max",
        "min",
    ):
        raise ValueError("the mode of its metric is neither max nor min")
    config = _object(named.get("config", {}), dict.fromkeys(named.get("config", {}), str))
    return Manifest(
        **{
            **named,
            "shards": shards,
            "metric": Metric(**metric) if metric else None,
            "parts": _list(named.get("parts", []), str),
            "config": config,
        }
    )


_SHARD_NAME = re.compile(r"rank\d{5,9}\.safetensors", re.ASCII)
# What 64 bits with a sign hold.
_MOST = 1 << 63
_MANIFEST: dict[str, Any] = {
    **dict.fromkeys(("step", "epoch", "batch", "world_size"), int),
    **dict.fromkeys(("checksum", "job", "saved_at"), str),
    **{"shards": list, "parts": list, "is_sharded": bool, "config": dict},
    "metric": dict | None,
}
_NEEDED = ("step", "epoch", "batch", "world_size", "shards", "checksum")
_SHARD: dict[str, Any] = {"name": str, "size_bytes": int, "checksums": list}
_METRIC: dict[str, Any] = {"value": float | int, "mode": str, "is_best": bool}


def _object(
    value: Any,  # noqa: ANN401 - from JSON
    kinds: Mapping[str, Any],
    *,
    needed: Iterable[str] = (),
) -> dict[str, Any]:
    """A JSON object whose every field is known and of its type.

    Raises:
        ValueError: it is not.
        KeyError: a field is missing.
    """
    if not isinstance(value, dict):
        raise ValueError(f"{value!r:.80} was found, but an object is expected")
    for name, own in value.items():
        # In Python a truth value is a number.
        is_kind = name in kinds and isinstance(own, kinds[name]) and type(own) is not bool
        if not is_kind and not (name in kinds and kinds[name] is bool and type(own) is bool):
            raise ValueError(f"{name:.80} is {own!r:.80}")
        if isinstance(own, int) and not 0 <= own < _MOST and kinds[name] is int:
            raise ValueError(f"{name} is {own!r:.80}")
    for name in needed:
        value[name]
    return value


def _list(values: Any, kind: type) -> tuple[Any, ...]:  # noqa: ANN401 - from JSON
    """A JSON list whose every item is of one type. Raises ValueError otherwise."""
    if not isinstance(values, list) or not all(isinstance(value, kind) for value in values):
        raise ValueError(f"{values!r:.80} was found, but a list of {kind.__name__} is expected")
    return tuple(values)


def _seal(fields: Mapping[str, Any]) -> str:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return f"{zlib.crc32(text.encode()):08x}"

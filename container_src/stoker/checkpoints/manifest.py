"""The manifest: what a checkpoint consists of. Written last, so its presence means "complete"."""

from __future__ import annotations

import json
import zlib

from stoker.contract.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Literal

NAME = "manifest.json"
FORMAT = 1


class ManifestInvalid(Exception):
    """Its text says what is wrong; the checkpoint is passed over."""


class Shard(Record):
    """One file of a checkpoint."""

    name: str
    size_bytes: int
    checksums: tuple[str, ...]
    """Of each piece of 16 MiB, in order."""


class Metric(Record):
    """What `best()` was told."""

    value: float
    mode: Literal["max", "min"] = "max"
    is_best: bool = False
    """Whether it was the best of its run when it was saved."""


class Manifest(Record):
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
    config: Mapping[str, str] = {}
    """The hyperparameters it was trained with; secret ones as a hash."""
    job: str = ""
    saved_at: str = ""
    """For people. Nothing is decided by it: clocks go back."""

    @property
    def size_bytes(self) -> int:
        return sum(shard.size_bytes for shard in self.shards)


def manifest_text(manifest: Manifest) -> str:
    """As it is written, with a seal over itself."""
    fields = dict(manifest.__dict__)
    fields["shards"] = [shard.__dict__ for shard in manifest.shards]
    fields["metric"] = manifest.metric.__dict__ if manifest.metric else None
    fields["format"] = FORMAT
    return json.dumps({**fields, "seal": _seal(fields)}, indent=1, sort_keys=True) + "\n"


def parse_manifest(text: str) -> Manifest:
    """Raises ManifestInvalid with the reason."""
    try:
        fields = json.loads(text)
        seal = fields.pop("seal")
        if fields.pop("format") != FORMAT:
            raise ManifestInvalid("its manifest has a format this version does not know")
        if seal != _seal({**fields, "format": FORMAT}):
            raise ManifestInvalid("its manifest is damaged: the seal does not fit")
        return _from_fields(fields)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ManifestInvalid(f"its manifest is damaged: {error}") from None


def _from_fields(fields: dict[str, Any]) -> Manifest:
    shards = tuple(
        Shard(**{**shard, "checksums": tuple(shard["checksums"])}) for shard in fields["shards"]
    )
    metric = Metric(**fields["metric"]) if fields.get("metric") else None
    parts = tuple(fields.get("parts", ()))
    if any("/" in shard.name or shard.name.startswith(".") for shard in shards):
        raise ManifestInvalid("its manifest names files outside its folder")
    return Manifest(**{**fields, "shards": shards, "metric": metric, "parts": parts})


def _seal(fields: Mapping[str, Any]) -> str:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return f"{zlib.crc32(text.encode()):08x}"

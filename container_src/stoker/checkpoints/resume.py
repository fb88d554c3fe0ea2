"""Finding the newest checkpoint that is valid for every rank, and reading it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch

from stoker.checkpoints.checksums import checksums_of
from stoker.checkpoints.group import Group
from stoker.checkpoints.log import say, warn
from stoker.checkpoints.manifest import Manifest
from stoker.checkpoints.parts import Parts
from stoker.checkpoints.progress import Progress
from stoker.checkpoints.random_state import check_random_state
from stoker.checkpoints.shards import MappedShard
from stoker.checkpoints.store import Checkpoint, Store
from stoker.checkpoints.tree import Encoder, decode
from stoker.errors import CheckpointMismatch

_FIRST_FILE = "rank00000.safetensors"


@dataclass(frozen=True, kw_only=True, slots=True)
class Resumed:
    """What a checkpoint gave back."""

    checkpoint: Checkpoint
    manifest: Manifest
    loop: Mapping[str, Any]
    own: Mapping[str, Any]
    """Of this rank; empty if the checkpoint knows no rank of this number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Content:
    """What one rank has read of a checkpoint."""

    tree: Mapping[str, Any]
    """The states of the parts as JSON, and …"""
    first: MappedShard
    """… the file with their tensors."""
    loop: Mapping[str, Any]
    own: Mapping[str, Any]
    states: Mapping[str, Any] = field(default_factory=dict)
    """Of the parts; empty where pieces of all ranks have to be put together first."""


class Resume:
    """Reads checkpoints, newest first, until one is valid on all ranks."""

    def __init__(self, store: Store, group: Group, parts: Parts) -> None:
        self._store = store
        self._group = group
        self._parts = parts

    def run(self) -> Resumed | None:
        """Restores all parts from the newest valid checkpoint; None if there is none.

        Raises:
            CheckpointMismatch: it is valid, but does not fit the model, or another part.
        """
        for checkpoint in self._candidates():
            # Each rank reads before any of them restores: all take the same checkpoint, or none
            # does.
            trouble, content = self._read(checkpoint)
            troubles = [told for told in self._group.gather(trouble) if told]
            if not troubles and content is not None:
                return self._restore(checkpoint, content)
            self._skip(checkpoint.name, troubles[0])
        return None

    def _candidates(self) -> list[Checkpoint]:
        """Those that every host has, newest first."""
        found = {checkpoint.name: checkpoint for checkpoint in self._store.read_all()}
        told = self._group.gather([name for name, c in found.items() if not c.problem])
        # Each host has a disk of its own: what is valid here may be damaged or missing there.
        common = set(told[0]).intersection(*told[1:])
        for name, checkpoint in found.items():
            if name not in common:
                self._skip(name, checkpoint.problem or "another host does not have it whole")
        return [checkpoint for name, checkpoint in found.items() if name in common][::-1]

    def _skip(self, name: str, problem: str) -> None:
        if self._group.is_leader:
            warn(f"checkpoint {name} is skipped: {problem}")

    def _read(self, checkpoint: Checkpoint) -> tuple[str, _Content | None]:
        """Reads and checks what this rank needs. Returns what is wrong, or else what it read."""
        manifest = _manifest_of(checkpoint)
        files: dict[str, MappedShard] = {}
        for number, shard in enumerate(manifest.shards):
            is_needed = shard.name in (_FIRST_FILE, self._own_file)
            is_checked = is_needed or number % self._group.local_size == self._group.local_rank
            try:
                # Of what another rank of this host checks, at most the head is read.
                if is_checked or manifest.is_sharded:
                    mapped = MappedShard(f"{checkpoint.path}/{shard.name}", shard.size_bytes)
                if is_checked:
                    checksums = tuple(checksums_of(mapped.memory, manifest.checksum))
                    if checksums != shard.checksums:
                        return f"{shard.name} is damaged: its checksum does not fit", None
                if is_needed or manifest.is_sharded:
                    mapped.parse()
                    files[shard.name] = mapped
            except (OSError, ValueError) as error:
                return f"{shard.name} cannot be read: {error}", None
        try:
            return "", self._take_apart(files, is_sharded=manifest.is_sharded)
        # What is not a state can fail in any way, and torch's loader has errors of its own.
        except Exception as error:
            return f"it does not hold the state of a run: {_in_words(error)}", None

    def _take_apart(self, files: dict[str, MappedShard], *, is_sharded: bool) -> _Content:
        first = files[_FIRST_FILE]
        tree = dict(first.rest["state"])
        loop = decode(tree.pop("loop"), first.tensor)
        # Tried on an object of its own: a damaged state must not leave half of itself behind.
        Progress().continue_from(loop, world_size=1)
        own = self._own_state(files)
        if own:
            check_random_state(own["random"])
            if own["epoch_start"] is not None:  # between two epochs there is none
                check_random_state(own["epoch_start"])
        if is_sharded:
            _check_pieces(files.values())
            # Where the pieces go is seen later; now, whether the rest can be read.
            blanks = dict.fromkeys(_sharded_names(tree), torch.empty(0))
            decode({"map": tree}, _Finder(first, blanks, copy=False))
            return _Content(tree=tree, first=first, loop=loop, own=own)
        states = {
            name: decode(part, _Finder(first, {}, copy=self._parts.keeps_references(name)))
            for name, part in tree.items()
        }
        return _Content(tree=tree, first=first, loop=loop, own=own, states=states)

    def _restore(self, checkpoint: Checkpoint, content: _Content) -> Resumed:
        manifest, states = _manifest_of(checkpoint), content.states
        if self._parts.is_sharded and not manifest.is_sharded:
            raise CheckpointMismatch(
                f"{checkpoint.name} was saved unsharded, but the model is sharded now",
                fix="resume it as it was saved, or start over with another checkpoint folder",
            )
        if manifest.is_sharded:
            pieces = self._read_pieces(checkpoint, manifest, content.tree)
            states = {
                name: decode(
                    tree, _Finder(content.first, pieces, copy=self._parts.keeps_references(name))
                )
                for name, tree in content.tree.items()
            }
        self._tell_missing(self._parts.load(states, named=manifest.is_sharded), states)
        if self._group.is_leader:
            say(f"resumed from step {manifest.step} ({checkpoint.name})")
        return Resumed(
            checkpoint=checkpoint, manifest=manifest, loop=content.loop, own=content.own
        )

    @property
    def _own_file(self) -> str:
        return f"rank{self._group.rank:05d}.safetensors"

    def _own_state(self, files: Mapping[str, MappedShard]) -> Mapping[str, Any]:
        # More ranks than saved.
        if self._own_file not in files:
            return {}
        file = files[self._own_file]
        finder = _Finder(file, {}, copy=True)
        return {name: decode(tree, finder) for name, tree in file.rest["own"].items()}

    def _read_pieces(
        self, checkpoint: Checkpoint, manifest: Manifest, tree: Mapping[str, Any]
    ) -> dict[str, torch.Tensor]:
        """Sharded tensors, each in the form in which the model has it now."""
        # Only a sharded job waits for this import.
        from stoker.checkpoints.sharding import read_pieces

        encoder = Encoder()
        for name, state in self._parts.state(named=True).items():
            if name in tree:
                encoder.encode(state, name)
        now: dict[str, torch.Tensor] = {**encoder.tensors, **encoder.sharded}
        wanted = {name: now[name] for name in _sharded_names(tree) if name in now}
        try:
            read_pieces([f"{checkpoint.path}/{shard.name}" for shard in manifest.shards], wanted)
        except ValueError as error:
            raise CheckpointMismatch(
                f"{checkpoint.name} does not fit the model: {str(error)[:600]}",
                fix="resume it with the model it was saved with, or start over with another "
                "checkpoint folder",
            ) from error
        return wanted

    def _tell_missing(self, fresh: list[str], states: Mapping[str, Any]) -> None:
        unused = [name for name in states if name not in self._parts.names]
        if self._group.is_leader and fresh:
            warn(f"the checkpoint does not hold {', '.join(fresh)}: the initial state is kept")
        if self._group.is_leader and unused:
            warn(f"the checkpoint also holds {', '.join(unused)}, which nothing here asks for")


class _Finder:
    """Tensors by name, from a file, or from pieces put together."""

    def __init__(
        self, file: MappedShard, pieces: Mapping[str, torch.Tensor], *, copy: bool
    ) -> None:
        self._file = file
        self._pieces = pieces
        self._copy = copy

    def __call__(self, name: str) -> torch.Tensor:
        if name in self._pieces:
            return self._pieces[name]
        tensor = self._file.tensor(name)
        return tensor.clone() if self._copy else tensor


def _manifest_of(checkpoint: Checkpoint) -> Manifest:
    if checkpoint.manifest is None:
        raise ValueError(f"{checkpoint.name} has no manifest")
    return checkpoint.manifest


def _sharded_names(tree: Any) -> list[str]:  # noqa: ANN401 - JSON is any of six types
    if isinstance(tree, dict):
        own = [tree["sharded"]] if isinstance(tree.get("sharded"), str) else []
        return own + [name for value in tree.values() for name in _sharded_names(value)]
    if isinstance(tree, list):
        return [name for value in tree for name in _sharded_names(value)]
    return []


def _check_pieces(files: Iterable[MappedShard]) -> None:
    """Whether the pieces of each tensor can be those of a whole. Raises ValueError or KeyError."""
    wholes: dict[str, list[int]] = {}
    elements: Counter[str] = Counter()
    for file in files:
        for name, piece in file.rest["pieces"].items():
            offsets, whole, sizes = piece["offsets"], piece["whole"], file.places[name].shape
            ends = [start + size for start, size in zip(offsets, sizes, strict=True)]
            is_inside = all(0 <= end <= most for end, most in zip(ends, whole, strict=True))
            if (
                not is_inside
                or min(offsets, default=0) < 0
                or wholes.setdefault(name, whole) != whole
            ):
                raise ValueError(f"{name} has a piece at {offsets!r:.80} of {whole!r:.80}")
            elements[name] += prod(sizes)
    for name, whole in wholes.items():
        if elements[name] != prod(whole):
            raise ValueError(f"{name} has {elements[name]} elements of {prod(whole)}")


def _in_words(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"{str(error)[:200]} is missing"
    return str(error)[:200] or type(error).__name__

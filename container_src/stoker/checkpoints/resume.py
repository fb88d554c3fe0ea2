"""Finding the newest checkpoint that is sound for every rank, and reading it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from stoker.checkpoints.checksums import checksums_of
from stoker.checkpoints.group import Group
from stoker.checkpoints.log import say, warn
from stoker.checkpoints.manifest import Manifest
from stoker.checkpoints.parts import Parts
from stoker.checkpoints.shards import MappedShard
from stoker.checkpoints.store import Checkpoint, Store
from stoker.checkpoints.tree import Encoder, decode
from stoker.contract.record import Record
from stoker.errors import CheckpointMismatch

_FIRST_FILE = "rank00000.safetensors"


class Resumed(Record):
    """What a checkpoint gave back."""

    checkpoint: Checkpoint
    manifest: Manifest
    loop: Mapping[str, Any]
    own: Mapping[str, Any]
    """Of this rank; empty if the checkpoint knows no rank of this number."""


class Resume:
    """Reads checkpoints, newest first, until one is sound on all ranks."""

    def __init__(self, store: Store, group: Group, parts: Parts) -> None:
        self._store = store
        self._group = group
        self._parts = parts

    def run(self) -> Resumed | None:
        """Restores all parts from the newest sound checkpoint; None if there is none.

        Raises:
            CheckpointMismatch: it is sound, but does not fit the model, or another part.
        """
        for checkpoint in self._candidates():
            trouble, files = self._read(checkpoint)
            troubles = [told for told in self._group.gather(trouble) if told]
            if not troubles:
                return self._restore(checkpoint, files)
            self._skip(checkpoint.name, troubles[0])
        return None

    def _candidates(self) -> list[Checkpoint]:
        """Those that every host has, newest first."""
        found = {checkpoint.name: checkpoint for checkpoint in self._store.read_all()}
        told = self._group.gather([name for name, c in found.items() if not c.problem])
        common = set(told[0]).intersection(*told[1:])
        for name, checkpoint in found.items():
            if name not in common:
                self._skip(name, checkpoint.problem or "another host does not have it whole")
        return [checkpoint for name, checkpoint in found.items() if name in common][::-1]

    def _skip(self, name: str, problem: str) -> None:
        if self._group.is_leader:
            warn(f"checkpoint {name} is passed over: {problem}")

    def _read(self, checkpoint: Checkpoint) -> tuple[str, dict[str, MappedShard]]:
        """Reads and checks what this rank needs. Returns what is wrong, and the files."""
        manifest = _manifest_of(checkpoint)
        files: dict[str, MappedShard] = {}
        for number, shard in enumerate(manifest.shards):
            is_needed = shard.name in (_FIRST_FILE, self._own_file)
            if not is_needed and number % self._group.local_size != self._group.local_rank:
                continue  # another rank of this host checks it
            try:
                mapped = MappedShard(f"{checkpoint.path}/{shard.name}", shard.size_bytes)
                checksums = tuple(checksums_of(mapped.memory, manifest.checksum))
                if checksums != shard.checksums:
                    return f"{shard.name} is damaged: its checksum does not fit", {}
                if is_needed:
                    mapped.parse()
                    files[shard.name] = mapped
            except (OSError, ValueError) as error:
                return f"{shard.name} cannot be read: {error}", {}
        return "", files

    def _restore(self, checkpoint: Checkpoint, files: dict[str, MappedShard]) -> Resumed:
        manifest, first = _manifest_of(checkpoint), files[_FIRST_FILE]
        if self._parts.is_sharded and not manifest.is_sharded:
            raise CheckpointMismatch(
                f"{checkpoint.name} was saved unsharded, but the model is sharded now",
                fix="resume it as it was saved, or start anew with another checkpoint folder",
            )
        pieces = self._read_pieces(checkpoint, manifest, first.rest["state"])
        states = {
            name: decode(tree, _Finder(first, pieces, copy=self._parts.keeps_references(name)))
            for name, tree in first.rest["state"].items()
        }
        loop = states.pop("loop")
        self._tell_missing(self._parts.load(states, named=manifest.is_sharded), states)
        own = self._own_state(files)
        if self._group.is_leader:
            say(f"resumed from step {manifest.step} ({checkpoint.name})")
        return Resumed(checkpoint=checkpoint, manifest=manifest, loop=loop, own=own)

    @property
    def _own_file(self) -> str:
        return f"rank{self._group.rank:05d}.safetensors"

    def _own_state(self, files: Mapping[str, MappedShard]) -> Mapping[str, Any]:
        if self._own_file not in files:
            return {}
        file = files[self._own_file]
        finder = _Finder(file, {}, copy=True)
        return {name: decode(tree, finder) for name, tree in file.rest["own"].items()}

    def _read_pieces(
        self, checkpoint: Checkpoint, manifest: Manifest, tree: Mapping[str, Any]
    ) -> dict[str, torch.Tensor]:
        """Sharded tensors, each in the form in which the model has it now."""
        if not manifest.is_sharded:
            return {}
        # Only a sharded job waits for this import.
        from stoker.checkpoints.sharding import read_pieces

        encoder = Encoder()
        for name, state in self._parts.state(named=True).items():
            if name in tree:
                encoder.encode(state, name)
        now: dict[str, torch.Tensor] = {**encoder.tensors, **encoder.sharded}
        wanted = {name: now[name] for name in _sharded_names(tree) if name in now}
        read_pieces([f"{checkpoint.path}/{shard.name}" for shard in manifest.shards], wanted)
        return wanted

    def _tell_missing(self, fresh: list[str], states: Mapping[str, Any]) -> None:
        unused = [name for name in states if name not in self._parts.names]
        if self._group.is_leader and fresh:
            warn(f"the checkpoint holds no {', '.join(fresh)}: as freshly made")
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

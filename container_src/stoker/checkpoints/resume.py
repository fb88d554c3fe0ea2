"""Finding the newest checkpoint that is sound for every rank, and reading it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from stoker.checkpoints.checksums import checksums_of_file
from stoker.checkpoints.direct import read_into
from stoker.checkpoints.group import Group
from stoker.checkpoints.log import say, warn
from stoker.checkpoints.manifest import Manifest, Shard
from stoker.checkpoints.parts import Parts
from stoker.checkpoints.shards import Place, parse_head
from stoker.checkpoints.staging import Staging
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

    def __init__(self, store: Store, group: Group, parts: Parts, staging: Staging) -> None:
        self._store = store
        self._group = group
        self._parts = parts
        # Only the leader saves as much as is read here; the others give the memory back.
        self._staging = staging if group.is_leader else Staging()

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

    def _read(self, checkpoint: Checkpoint) -> tuple[str, dict[str, memoryview]]:
        """Reads and checks what this rank needs. Returns what is wrong, and the files."""
        manifest = _manifest_of(checkpoint)
        own = f"rank{self._group.rank:05d}.safetensors"
        files: dict[str, memoryview] = {}
        try:
            for number, shard in enumerate(manifest.shards):
                path = f"{checkpoint.path}/{shard.name}"
                if shard.name in (_FIRST_FILE, own):
                    files[shard.name] = memory = self._memory_for(shard)
                    checksums = read_into(path, memory, checksum=manifest.checksum)
                elif number % self._group.local_size == self._group.local_rank:
                    checksums = tuple(checksums_of_file(path, manifest.checksum))
                else:
                    continue  # another rank of this host reads it
                if checksums != shard.checksums:
                    return f"{shard.name} is damaged: its checksum does not fit", {}
        except OSError as error:
            return f"{shard.name} cannot be read: {error.strerror}", {}
        return "", files

    def _memory_for(self, shard: Shard) -> memoryview:
        if shard.name != _FIRST_FILE:
            return memoryview(bytearray(shard.size_bytes))
        self._staging.reserve(shard.size_bytes)
        return self._staging.memory(shard.size_bytes)

    def _restore(self, checkpoint: Checkpoint, files: dict[str, memoryview]) -> Resumed:
        manifest = _manifest_of(checkpoint)
        if self._parts.is_sharded and not manifest.is_sharded:
            raise CheckpointMismatch(
                f"{checkpoint.name} was saved unsharded, but the model is sharded now",
                fix="resume it as it was saved, or start anew with another checkpoint folder",
            )
        places, rest = parse_head(files[_FIRST_FILE])
        pieces = self._read_pieces(checkpoint, manifest, rest["state"])
        states = {
            name: decode(tree, self._finder(name, places, pieces))
            for name, tree in rest["state"].items()
        }
        loop = states.pop("loop")
        self._tell_missing(self._parts.load(states, named=manifest.is_sharded), states)
        own = self._own_state(files, places, rest)
        if self._group.is_leader:
            say(f"resumed from step {manifest.step} ({checkpoint.name})")
        return Resumed(checkpoint=checkpoint, manifest=manifest, loop=loop, own=own)

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

    def _finder(
        self, part: str, places: Mapping[str, Place], pieces: Mapping[str, torch.Tensor]
    ) -> _Finder:
        return _Finder(self._staging, places, pieces, copy=self._parts.keeps_references(part))

    def _own_state(
        self, files: dict[str, memoryview], places: Mapping[str, Place], rest: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        if self._group.is_leader:
            finder = _Finder(self._staging, places, {}, copy=True)
            return {name: decode(tree, finder) for name, tree in rest["own"].items()}
        file = files.get(f"rank{self._group.rank:05d}.safetensors")
        if file is None:
            return {}
        places, rest = parse_head(file)
        loose = Staging()
        loose.reserve(len(file))
        loose.memory(len(file))[:] = file
        finder = _Finder(loose, places, {}, copy=True)
        return {name: decode(tree, finder) for name, tree in rest["own"].items()}

    def _tell_missing(self, fresh: list[str], states: Mapping[str, Any]) -> None:
        unused = [name for name in states if name not in self._parts.names]
        if self._group.is_leader and fresh:
            warn(f"the checkpoint holds no {', '.join(fresh)}: as freshly made")
        if self._group.is_leader and unused:
            warn(f"the checkpoint also holds {', '.join(unused)}, which nothing here asks for")


class _Finder:
    """Tensors by name, from the memory a file was read into, or from pieces put together."""

    def __init__(
        self,
        staging: Staging,
        places: Mapping[str, Place],
        pieces: Mapping[str, torch.Tensor],
        *,
        copy: bool,
    ) -> None:
        self._staging = staging
        self._places = places
        self._pieces = pieces
        self._copy = copy

    def __call__(self, name: str) -> torch.Tensor:
        if name in self._pieces:
            return self._pieces[name]
        tensor = self._staging.tensor(self._places[name])
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

"""Tensors of which each rank holds a piece (FSDP2, any DTensor): saved in pieces, read in others.

Saving needs no talk between the ranks: each piece says where in the whole it belongs. Loading goes
through torch.distributed.checkpoint, whose planner finds which stretches of which pieces a rank
needs now, however many ranks there were.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import LoadPlan, LoadPlanner
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.storage import StorageReader
from torch.distributed.tensor import DTensor
from torch.futures import Future
from torch.optim import Optimizer

from stoker.checkpoints.shards import MappedShard


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """One rank's part of a tensor."""

    tensor: torch.Tensor
    offsets: tuple[int, ...]
    whole: tuple[int, ...]
    """Shape of the tensor it is a part of."""

    def to_json(self) -> dict[str, Any]:
        return {"offsets": self.offsets, "whole": self.whole}


def own_piece(tensor: torch.Tensor) -> Piece | None:
    """What this rank is to write of a tensor; None if nothing, or another has the same piece."""
    if not isinstance(tensor, DTensor):
        raise TypeError(f"{type(tensor).__name__} is not a DTensor")
    coordinate = tensor.device_mesh.get_coordinate()
    placed = zip(coordinate or (), tensor.placements, strict=False)
    # Of a tensor that is replicated over a dimension of the mesh, the first there writes.
    is_replica = any(place.is_replicate() and at > 0 for at, place in placed)
    chunks = tensor.__create_chunk_list__()  # type: ignore[no-untyped-call] # torch has no types here
    local = tensor.to_local()
    if coordinate is None or is_replica or not chunks or not local.numel():
        return None
    return Piece(
        tensor=local.detach(),
        offsets=tuple(chunks[0].offsets),
        whole=tuple(tensor.shape),
    )


def read_pieces(files: list[str], wanted: Mapping[str, torch.Tensor]) -> None:
    """Fills tensors, whole ones or one's own pieces, from the files of all ranks that saved.

    Raises:
        ValueError: a file is not a shard that Stoker wrote, or its tensors do not fit.
    """
    is_group = dist.is_available() and dist.is_initialized()
    target = dict(wanted)
    planner = DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
    try:
        with torch.no_grad():
            load(target, storage_reader=_Reader(files), planner=planner, no_dist=not is_group)
    except (CheckpointException, RuntimeError, KeyError) as error:  # the first is not an Exception
        raise ValueError(str(error)) from error


def state_by_name(model: nn.Module, optimizer: Optimizer | None = None) -> dict[str, Any]:
    """The state of a model, or of its optimizer, by names that are the same on all ranks."""
    if optimizer is None:
        return get_model_state_dict(model)
    return dict(get_optimizer_state_dict(model, optimizer))


def load_by_name(state: Any, model: nn.Module, optimizer: Optimizer | None = None) -> None:  # noqa: ANN401 - as it was saved
    """Gives a model, or its optimizer, such a state back."""
    if optimizer is None:
        set_model_state_dict(model, state)
    else:
        # A parameter that never had a gradient has no state, then as now; that the checkpoint
        # knows all of them is seen when the model is loaded.
        options = StateDictOptions(strict=False)
        set_optimizer_state_dict(model, optimizer, state, options=options)


class _Reader(StorageReader):
    """Our files as torch.distributed.checkpoint sees them. No pickle, unlike its own format."""

    def __init__(self, files: list[str]) -> None:
        self._found: dict[MetadataIndex, torch.Tensor] = {}
        self._whole: dict[str, TensorStorageMetadata] = {}
        for file in files:
            self._open(file)

    def _open(self, path: str) -> None:
        file = MappedShard(path, os.stat(path).st_size)
        file.parse()
        for name, piece in file.rest["pieces"].items():
            tensor = file.tensor(name)
            offsets, sizes = torch.Size(piece["offsets"]), tensor.shape
            self._found[MetadataIndex(name, offsets)] = tensor
            whole = TensorStorageMetadata(
                properties=TensorProperties(dtype=tensor.dtype),
                size=torch.Size(piece["whole"]),
                chunks=[],
            )
            chunk = ChunkStorageMetadata(offsets=offsets, sizes=sizes)
            self._whole.setdefault(name, whole).chunks.append(chunk)

    def reset(self, checkpoint_id: object = None) -> None:
        """Nothing is kept between reads."""

    def read_metadata(self, *_: object, **__: object) -> Metadata:
        return Metadata(state_dict_metadata=dict(self._whole), storage_data=self._found)

    def set_up_storage_reader(self, *_: object, **__: object) -> None:
        """All is open already."""

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        for item in plan.items:
            source = self._found[item.storage_index]
            for dim, (start, length) in enumerate(
                zip(item.storage_offsets, item.lengths, strict=True)
            ):
                source = source.narrow(dim, start, length)
            target = planner.resolve_tensor(item).detach()
            target.copy_(source)
            planner.commit_tensor(item, target)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: object) -> bool:
        return False

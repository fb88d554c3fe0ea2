"""The state at one moment: what is fixed at once, and what is copied while training continues."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import torch

from stoker.checkpoints.shards import Layout, make_layout
from stoker.checkpoints.staging import Staging
from stoker.checkpoints.tree import Encoder
from stoker.errors import CheckpointFailed

if TYPE_CHECKING:
    from stoker.checkpoints.sharding import Piece


class Snapshot:
    """State on its way to the staging memory.

    Tensors that only an optimizer's step changes are copied later, in the background, while the
    next forward and backward run; `wait` holds the step back until that is done.
    """

    def __init__(
        self,
        state: dict[str, Any],
        own: dict[str, Any],
        *,
        settled: Collection[int],
        is_leader: bool,
    ) -> None:
        """Names everything; copies nothing yet.

        Args:
            state: of the job: the leader writes it, but for tensors of which each has a piece.
            own: of this very rank.
            settled: addresses of tensors that stay as they are until an optimizer's step.
            is_leader: whether this rank is the leader.
        """
        common, local = Encoder(), Encoder()
        state_tree = {name: _encode(common, value, name) for name, value in state.items()}
        own_tree = {name: _encode(local, value, f"own.{name}") for name, value in own.items()}
        pieces = _own_pieces(common.sharded) if common.sharded else {}
        self.is_sharded = bool(common.sharded)
        self._tensors = {name: piece.tensor for name, piece in pieces.items()} | local.tensors
        if is_leader:
            self._tensors |= common.tensors
        rest = {
            "own": own_tree,
            "pieces": {name: piece.to_json() for name, piece in pieces.items()},
            "state": state_tree if is_leader else {},
        }
        self.layout: Layout = make_layout(self._tensors, rest)
        # Now, before anything is copied: copy_late() compares.
        self._late = {n: _version(t) for n, t in self._tensors.items() if t.data_ptr() in settled}
        self._copied = threading.Event()
        self._streams = _make_streams(self._tensors.values())

    def copy_early(self, staging: Staging) -> None:
        """Copies, now, all that may change before the next step: buffers, random states."""
        staging.memory(len(self.layout.head))[:] = self.layout.head
        for name, place in self.layout.places.items():
            if name not in self._late:
                staging.copy(self._tensors[name], place)
        for stream in self._streams:
            # These copies are on the training's own streams: queued behind what computes the
            # values.
            torch.cuda.current_stream(stream.device).synchronize()

    def copy_late(self, staging: Staging) -> None:
        """Copies the rest, and lets the state change.

        Raises:
            CheckpointFailed: something else than an optimizer's step changed a parameter.
        """
        with ExitStack() as current:
            for stream in self._streams:
                current.enter_context(torch.cuda.stream(stream))
            for name in self._late:
                staging.copy(self._tensors[name], self.layout.places[name])
        for stream in self._streams:
            stream.synchronize()
        changed = [n for n, version in self._late.items() if _version(self._tensors[n]) != version]
        self.release()
        if changed:
            raise CheckpointFailed(
                f"{changed[0]} was changed outside optimizer.step() while it was being copied",
                fix="change parameters right after optimizer.step(), or pass overlap=False",
            )

    def release(self) -> None:
        """Lets the state change: it is copied, or never will be."""
        self._tensors = {}
        self._copied.set()

    def wait(self) -> None:
        """Returns when the state may change."""
        self._copied.wait()


def _encode(encoder: Encoder, value: object, name: str) -> Any:  # noqa: ANN401 - JSON
    try:
        return encoder.encode(value, name)
    except (RecursionError, TypeError, ValueError) as error:
        # torch refuses some tensors in its own words: those of a lazy module, for one.
        raise CheckpointFailed(
            f"{name} cannot be saved: {str(error)[:300]}",
            fix=f"keep plain values and initialized tensors in {name}",
        ) from error


def _own_pieces(tensors: dict[str, torch.Tensor]) -> dict[str, Piece]:
    # Only a sharded job waits for this import.
    from stoker.checkpoints.sharding import own_piece

    held = {name: own_piece(tensor) for name, tensor in tensors.items()}
    return {name: piece for name, piece in held.items() if piece is not None}


def _make_streams(tensors: Iterable[torch.Tensor]) -> list[torch.cuda.Stream]:
    """One for each GPU that holds a part of the state: copies wait in a line of their own."""
    devices = {tensor.device for tensor in tensors}
    return [torch.cuda.Stream(device) for device in devices if device.type == "cuda"]  # type: ignore[no-untyped-call] # torch has no types here


def _version(tensor: torch.Tensor) -> int:
    """Counts the changes in place, whatever code makes them."""
    # Tensors made in inference mode have no version, and torch raises for it.
    return -1 if tensor.is_inference() else int(tensor._version)

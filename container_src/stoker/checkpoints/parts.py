"""What is saved: the model, the optimizer and everything else with a state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from stoker.checkpoints.dtensors import is_dtensor, local_part
from stoker.errors import CheckpointFailed, CheckpointMismatch, StokerError

_RESERVED = {"own", "loop"}


class Parts:
    """The objects handed to `stoker.checkpoints`, by name.

    A model inside DistributedDataParallel or torch.compile is taken out of it, so that its
    checkpoint fits it with and without.
    """

    def __init__(self, objects: Mapping[str, object]) -> None:
        given = {name: part for name, part in objects.items() if part is not None}
        self._parts = {name: _unwrapped(part) for name, part in given.items()}
        for name, part in self._parts.items():
            _check(name, part)
        parameters = (p for model in self._models() for p in model.parameters())
        self.is_sharded = any(is_dtensor(parameter) for parameter in parameters)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._parts)

    def state(self, *, named: bool | None = None) -> dict[str, Any]:
        """The state of each, sharing memory with it.

        Args:
            named: optimizers by the names of the parameters instead of their numbers, which
                differ between ranks; as the model needs it if not said.
        """
        named = self.is_sharded if named is None else named
        return {name: self._state_of(part, named) for name, part in self._parts.items()}

    def load(self, states: Mapping[str, Any], *, named: bool = False) -> list[str]:
        """Gives each its state back. Returns the names of those the checkpoint knows nothing of.

        Raises:
            CheckpointMismatch: a state does not fit.
        """
        for name in self._parts.keys() & states.keys():
            try:
                self._load(self._parts[name], states[name], named)
            except StokerError:
                raise
            except Exception as error:  # each part refuses in its own way
                raise CheckpointMismatch(
                    f"the checkpoint does not fit {name}: {str(error)[:600]}",
                    fix="the code has changed since it was saved: use another checkpoint folder, "
                    "or stoker.checkpoints(…, resume=False) to start over",
                ) from error
        return [name for name in self._parts if name not in states]

    def keeps_references(self, name: str) -> bool:
        """Whether the part may keep using the tensors that it is given."""
        # A module copies into its parameters; an optimizer may take the tensors themselves.
        return not isinstance(self._parts.get(name), torch.nn.Module)

    def optimizers(self) -> list[torch.optim.Optimizer]:
        return [p for p in self._parts.values() if isinstance(p, torch.optim.Optimizer)]

    def settled(self) -> set[int]:
        """Addresses of what changes in an optimizer's step and nowhere else."""
        return {
            local_part(tensor).data_ptr()
            for optimizer in self.optimizers()
            for tensor in _tensors_of(optimizer)
        }

    def _models(self) -> list[torch.nn.Module]:
        return [part for part in self._parts.values() if isinstance(part, torch.nn.Module)]

    def _model_of(self, optimizer: torch.optim.Optimizer) -> torch.nn.Module:
        own = {id(p) for group in optimizer.param_groups for p in group["params"]}
        for model in self._models():
            if own <= {id(parameter) for parameter in model.parameters()}:
                return model
        raise CheckpointFailed(
            "an optimizer of a sharded job has parameters of no model that was passed",
            fix="pass each model, too: stoker.checkpoints(job, model=…, optimizer=…)",
        )

    def _state_of(self, part: Any, named: bool) -> Any:  # noqa: ANN401 - as its state_dict says
        if isinstance(part, dict):
            return dict(part)
        if named and isinstance(part, torch.nn.Module | torch.optim.Optimizer):
            # Only a sharded job waits for this import.
            from stoker.checkpoints.sharding import state_by_name

            return state_by_name(*self._with_model(part))
        return part.state_dict()

    def _load(self, part: Any, state: Any, named: bool) -> None:  # noqa: ANN401
        if isinstance(part, dict):
            # In place: the script has the same dict.
            part.clear()
            part.update(state)
        elif named and isinstance(part, torch.nn.Module | torch.optim.Optimizer):
            from stoker.checkpoints.sharding import load_by_name

            load_by_name(state, *self._with_model(part))
        else:
            part.load_state_dict(state)
        if isinstance(part, torch.optim.Optimizer):
            _require_settings(part)

    def _with_model(
        self, part: torch.nn.Module | torch.optim.Optimizer
    ) -> tuple[torch.nn.Module, torch.optim.Optimizer | None]:
        if isinstance(part, torch.nn.Module):
            return part, None
        return self._model_of(part), part


def _unwrapped(part: object) -> object:
    if isinstance(part, DistributedDataParallel):
        return _unwrapped(part.module)
    # torch.compile's wrapper has the model there.
    return _unwrapped(part._orig_mod) if hasattr(part, "_orig_mod") else part


def _check(name: str, part: object) -> None:
    if name in _RESERVED:
        raise CheckpointFailed(
            f"{name!r} is a name that Stoker uses itself", fix="call it something else"
        )
    has_state = callable(getattr(part, "state_dict", None))
    has_load = callable(getattr(part, "load_state_dict", None))
    if not isinstance(part, dict) and not (has_state and has_load):
        raise CheckpointFailed(
            f"{name} is a {type(part).__name__}, which cannot be saved",
            fix="pass a dict, or an object with state_dict() and load_state_dict()",
        )


def _require_settings(optimizer: torch.optim.Optimizer) -> None:
    # torch takes the groups of any optimizer: what they lack is a KeyError in the first step.
    groups = optimizer.param_groups
    missing = sorted({n for n in optimizer.defaults for group in groups if n not in group})
    if missing:
        kind = type(optimizer).__name__
        raise ValueError(f"it is of another optimizer than {kind}: {', '.join(missing)} missing")


def _tensors_of(optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    for group in optimizer.param_groups:
        yield from group["params"]
    for state in optimizer.state.values():
        yield from (value for value in state.values() if isinstance(value, torch.Tensor))

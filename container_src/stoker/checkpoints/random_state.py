"""Random numbers that continue where they were: Python's, NumPy's, torch's, a loader's own."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch


def read_random_state(generators: Sequence[torch.Generator] = ()) -> dict[str, Any]:
    """The state of every generator this process draws from."""
    state = {
        "python": random.getstate(),
        "numpy": np.random.get_state(legacy=True),
        "torch": torch.get_rng_state(),
        "generators": [generator.get_state() for generator in generators],
    }
    # To read the state of a device starts CUDA, which takes memory of the GPU and forbids to fork.
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call] # torch's, without types
        state["cuda"] = torch.cuda.get_rng_state()  # of the device a rank works with
        state["cuda_devices"] = torch.cuda.get_rng_state_all()  # it may use others, too
    return state


def restore_random_state(state: dict[str, Any]) -> None:
    """Sets the generators that every process has back to what was read."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        # Where there are fewer now, the rest is left out; one more keeps the script's seed.
        devices = state.get("cuda_devices", [])
        for device, own in enumerate(devices[: torch.cuda.device_count()]):
            torch.cuda.set_rng_state(own, device)
        # Last: the same rank may work with a device of another number than before.
        torch.cuda.set_rng_state(state["cuda"])


def check_random_state(state: dict[str, Any]) -> None:
    """Tries a state, and leaves every generator as it is.

    Raises:
        Exception: it cannot be restored. Each generator refuses in its own way.
    """
    before = read_random_state()
    try:
        restore_random_state(state)
        restore_generators(state, [torch.Generator() for _ in state["generators"]])
    finally:
        restore_random_state(before)


def restore_generators(state: dict[str, Any], generators: Sequence[torch.Generator]) -> None:
    """Sets a loader's own ones back."""
    for generator, own in zip(generators, state["generators"], strict=False):
        generator.set_state(own)


def generators_of(loader: object) -> list[torch.Generator]:
    """The generators a DataLoader was given, itself or through its samplers."""
    sampler = getattr(loader, "sampler", None)
    batch_sampler = getattr(loader, "batch_sampler", None)
    holders = (loader, sampler, batch_sampler, getattr(batch_sampler, "sampler", None))
    found = (getattr(holder, "generator", None) for holder in holders)
    return list({id(g): g for g in found if isinstance(g, torch.Generator)}.values())

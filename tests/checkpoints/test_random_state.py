"""Random states of devices that this machine does not have."""

from __future__ import annotations

import pytest
import torch

from stoker.checkpoints.random_state import read_random_state, restore_random_state


class Devices:
    """CUDA's generators, one number each, in the place of torch's own."""

    def __init__(self, monkeypatch, *states, current=0):
        self.states = [torch.tensor([state], dtype=torch.uint8) for state in states]
        self.current = current
        for name, stand_in in {
            "is_available": lambda: True,
            "is_initialized": lambda: True,
            "device_count": lambda: len(self.states),
            "get_rng_state": lambda: self.states[self.current].clone(),
            "get_rng_state_all": lambda: [state.clone() for state in self.states],
            "set_rng_state": self._set,
        }.items():
            monkeypatch.setattr(torch.cuda, name, stand_in)

    def _set(self, state, device=None):
        self.states[self.current if device is None else device] = state.clone()

    @property
    def numbers(self):
        return [int(state) for state in self.states]


@pytest.mark.parametrize(
    ("saved_on", "restored_on", "current", "expected"),
    [
        ([1, 2, 3], [7, 8, 9], 1, [1, 2, 3]),
        ([1, 2, 3], [7, 8], 1, [1, 2]),
        ([1, 2, 3], [7, 8, 9, 10], 1, [1, 2, 3, 10]),
        ([1, 2], [7, 8, 9, 10], 3, [1, 2, 9, 2]),  # its rank now has another device
    ],
    ids=["the same", "fewer", "more", "another"],
)
def test_each_device_continues_where_it_was(monkeypatch, saved_on, restored_on, current, expected):
    Devices(monkeypatch, *saved_on, current=1)
    state = read_random_state()
    devices = Devices(monkeypatch, *restored_on, current=current)
    restore_random_state(state)
    assert devices.numbers == expected


def test_a_checkpoint_of_one_device_is_that_of_the_current_one(monkeypatch):
    Devices(monkeypatch, 1, current=0)
    state = read_random_state()
    del state["cuda_devices"]  # as earlier versions saved it
    devices = Devices(monkeypatch, 7, 8, current=1)
    restore_random_state(state)
    assert devices.numbers == [7, 1]

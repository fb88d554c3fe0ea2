"""Counting devices."""

from __future__ import annotations

import os

import pytest

from stoker.contract.hardware import _visible, read_hardware


@pytest.mark.parametrize(
    ("mask", "visible"),
    [
        (None, 4),
        ("0", 1),
        ("0,1", 2),
        (" 0 , 1 ", 2),
        ("3,2,1,0", 4),
        ("", 0),
        ("-1", 0),
        ("0,-1,1", 1),
        ("0,,1", 1),
        ("GPU-8932f937", 1),
        ("MIG-a,MIG-b", 2),
        # CUDA: "if one of the indices is invalid, only the devices whose index precedes the
        # invalid index are visible".
        ("7", 0),
        ("0,7,1", 1),
        ("0,1,2,3,4", 4),
        ("none", 0),
        ("NoDevFiles", 0),
    ],
)
def test_a_mask_hides_devices_as_cuda_reads_it(mask, visible):
    assert _visible(4, mask) == visible


def test_a_mask_never_adds_devices():
    assert _visible(0, "0,1") == 0
    assert _visible(0, None) == 0


def test_this_machine_can_be_counted():
    hardware = read_hardware({})
    assert hardware.cpus == len(os.sched_getaffinity(0))
    assert hardware.gpus >= 0
    assert "lo" in hardware.interfaces


def test_only_the_processors_this_process_may_use_are_counted():
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert read_hardware({}).cpus == 1
    finally:
        os.sched_setaffinity(0, allowed)

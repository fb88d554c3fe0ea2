"""Memory for the tensors of a step: as much as they need, within the bound, and used again."""

from __future__ import annotations

import itertools
import os
import re
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from stoker.debugging.description import Description
from stoker.debugging.hook import recorder as recorder_module
from stoker.debugging.hook.arena import Arena, Pool, _allocate
from stoker.debugging.hook.attach import attach
from stoker.debugging.hook.forms import Form
from stoker.debugging.hook.plan import WantedParameter
from stoker.debugging.hook.request import read_request
from stoker.debugging.tensors import step_file
from stoker.debugging.tensors.saved_tensors import SavedTensors

from .trainings import Net, batch, fit, plain_loss

ALL = read_request("collections=all every=1")
MB = 1 << 20


class WithPartElsewhere(Net):
    """Such as a part that is loaded later."""

    def __init__(self) -> None:
        super().__init__()
        self.later = nn.Linear(4000, 1000, device="meta")


def test_memory_is_taken_only_for_what_is_copied(tmp_path):
    with attach(ALL, tmp_path) as hook:
        fit(WithPartElsewhere(), plain_loss)
        assert hook._recorder.open.arena.size_bytes <= 2 * MB


def test_every_step_of_a_net_takes_its_memory_in_one_piece(tmp_path):
    class Large(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            # Sizes that are no multiples of what an arena hands out.
            self.layers = nn.Sequential(*(nn.Linear(201, 201) for _ in range(20)))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layers(x)

    model = Large()
    with attach(read_request("collections=weights,gradients,biases every=1"), tmp_path) as hook:
        for _ in range(4):
            model(torch.ones(2, 201)).sum().backward()
        hook.flush()
        pool = hook._recorder._pool
        assert {len(arena._chunks) for arena in (*pool._in_use, *pool._free)} == {1}


@pytest.mark.skipif(
    tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2]) < (5, 14),
    reason="an older Linux cannot",
)
def test_the_memory_of_a_large_step_is_provided_ahead_of_its_use():
    chunk = _allocate(16 * MB, is_pinned=False)
    address = f"{chunk.data_ptr():x}-"

    def resident_kb() -> int:
        maps = Path("/proc/self/smaps").read_text()
        return int(maps.partition(f"\n{address}")[2].partition("\nRss:")[2].split()[0])

    deadline = time.monotonic() + 60
    while resident_kb() < 16 << 10:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_reductions_that_are_made_on_another_device_take_no_memory_here():
    reductions = Form(has_values=False, reductions=("max",), has_shape=False, histograms=())
    values = reductions._replace(has_values=True)
    here, elsewhere = torch.empty(1000), torch.empty(1000, device="meta")

    def copied_bytes(*forms: Form | None, of: torch.Tensor) -> int:
        return WantedParameter(Description(name="w"), None, forms).copied_bytes(of)

    assert copied_bytes(reductions, reductions, of=elsewhere) == 0
    assert copied_bytes(reductions, None, of=here) == 4032
    assert copied_bytes(values, reductions, of=elsewhere) == 4032
    assert copied_bytes(values, values, of=here.bfloat16()) == 2 * 4032


def fill(arena: Arena, size_bytes: int) -> None:
    arena.room("x", torch.Size([size_bytes]), torch.uint8)


def test_a_pool_keeps_its_bound_where_small_steps_and_large_ones_take_turns():
    """Losses at each step, weights at each tenth, and a disk that is ten steps behind."""
    pool, waiting = Pool(64 * MB, "drop"), []
    for step in range(100):
        size_bytes = 24 * MB if step % 10 == 0 else 1000
        arena = pool.take(size_bytes)
        if arena is None:
            continue
        fill(arena, size_bytes)
        assert pool.size_bytes <= 64 * MB
        waiting.append(arena)
        if len(waiting) > 10:
            pool.give_back(waiting.pop(0))
    for arena in waiting:
        pool.give_back(arena)
    assert 24 * MB <= pool.size_bytes <= 64 * MB


def test_a_mixed_schedule_takes_as_much_memory_as_its_largest_step_and_the_bound(tmp_path):
    config = read_request("weights.every=4 losses.every=1 memory=12MB")
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 16_000), nn.Linear(16_000, 3))  # 4 MiB
    sizes = []
    with attach(config, tmp_path) as hook:
        for _ in range(16):
            fit(model, plain_loss, steps=1)
            sizes.append(hook._recorder._pool.size_bytes)
        assert not hook._recorder._dropped
    assert max(sizes) <= 12 * 10**6


def test_threads_that_take_room_at_the_same_time_get_rooms_of_their_own():
    """Gradients of two devices come in two threads."""
    arena, rooms = Arena(is_pinned=False), []
    start = threading.Barrier(4)

    def work(thread: int) -> None:
        start.wait()
        for number in range(300):
            size = torch.Size([64 * (1 + number % 7)])
            rooms.append(arena.room(f"{thread}-{number}", size, torch.uint8))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    interval_seconds = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval_seconds)
    places = sorted((room.data_ptr(), room.numel()) for room in rooms)
    assert all(start + size <= after for (start, size), (after, _) in itertools.pairwise(places))
    assert arena.used_bytes == sum(size for _, size in places)


def test_memory_is_of_huge_pages_and_children_get_another_one():
    arena = Arena(is_pinned=False)
    arena.reserve(32 * MB)
    memory = arena._chunks[0]
    memory.fill_(7)
    flags = _kernel_flags(memory.data_ptr())
    assert "sh" not in flags  # of shared memory there are no huge pages
    if Path("/sys/kernel/mm/transparent_hugepage").exists():
        assert "hg" in flags
    assert "wf" in flags  # else the first step after a fork would copy all of it
    child = os.fork()
    if not child:
        os._exit(int(memory.any()))  # not a crash to any reader
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (memory == 7).all()


def _kernel_flags(address: int) -> list[str]:
    """What the kernel knows of the memory at an address."""
    is_here = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            is_here = start <= address < end
        elif is_here and line.startswith("VmFlags:"):
            return line.split()[1:]
    return []


def test_a_step_that_is_larger_than_the_bound_is_taken_alone():
    pool = Pool(4 * MB, "drop")
    arena = pool.take(8 * MB)
    fill(arena, 8 * MB)
    assert pool.take(1000) is None
    pool.give_back(arena)
    assert pool.take(8 * MB) is arena  # its memory is not given away: the next one is as large


@pytest.mark.parametrize("policy", ["wait", "drop"])
def test_memory_is_bounded_by_waiting_or_by_leaving_steps_out(
    tmp_path, capsys, monkeypatch, policy
):
    """The disk stands still until the training has made as many steps as memory holds."""
    may_write = threading.Event()
    stock = step_file.write_step

    def write(*args: object) -> object:
        may_write.wait(30)
        return stock(*args)

    monkeypatch.setattr("stoker.debugging.tensors.background.write_step", write)
    with attach(read_request(f"collections=all every=1 memory=4MB full={policy}"), tmp_path):
        model = Net()
        if policy == "wait":
            waiting = recorder_module.Pool.take

            def take(pool: object, expected_bytes: int) -> object:
                if not pool._has_room(expected_bytes):  # type: ignore[attr-defined] # just then
                    may_write.set()
                return waiting(pool, expected_bytes)

            monkeypatch.setattr(recorder_module.Pool, "take", take)
        fit(model, plain_loss, steps=8)
        may_write.set()
    error = capsys.readouterr().err
    steps = list(SavedTensors(tmp_path).steps())
    if policy == "wait":
        assert steps == list(range(8))
        assert "training waits for it" in error
    else:
        assert steps == [0, 1, 2]
        assert "5 steps were not saved" in error


def test_memory_of_a_step_in_inference_mode_serves_any_other(tmp_path, capsys):
    model = Net().eval()
    with attach(ALL, tmp_path) as hook:
        for mode in (torch.inference_mode(), torch.no_grad(), torch.inference_mode()):
            for _ in range(2):
                with mode:
                    plain_loss(model, *batch())
                hook.flush()  # the next step finds the memory of this one
    assert "failed" not in capsys.readouterr().err
    assert list(SavedTensors(tmp_path).steps()) == list(range(6))


def test_inputs_and_outputs_of_a_step_are_bounded_and_weights_are_not(tmp_path, capsys):
    """Without an optimizer nothing tells where the step ends."""
    model, judge = nn.Linear(300, 300), nn.Linear(300, 300).requires_grad_(False)
    x = torch.randn(10, 300)
    with attach(read_request("collections=all every=1 memory=100KB"), tmp_path):
        for _ in range(2):
            F.mse_loss(model(x), x).backward()
            for _ in range(20):
                judge(x)
    assert capsys.readouterr().err.count("the rest of them is left out") == 1
    step = SavedTensors(tmp_path).at(1)
    ends = [t for t in step.needed("all") if "put_" in t.name]
    assert 2 < len(ends) < 14
    assert sum(tensor.value().nbytes for tensor in ends) <= 100_000 + x.nbytes
    assert step.find("gradient/Linear_weight").value().shape == (300, 300)

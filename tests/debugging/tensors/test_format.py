"""Byte for byte what smdebug writes: its own writer is the oracle."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from smdebug.core.modes import ModeKeys
from smdebug.core.writer import FileWriter

from stoker.debugging.step_tensors import MODES
from stoker.debugging.tensors import SavedStep, step_file, write_step
from stoker.debugging.tensors.encoding import DTYPE_CODES
from stoker.debugging.tensors.layout import parse_reduction_name, reduction_name

WORKER = "worker_0"
SHAPES = [(), (1,), (3,), (2, 3), (1, 1, 1, 1), (130,), (2, 1, 70000)]


def write_stock(folder, step, mode, mode_step, tensors, wall_time, worker=WORKER):
    writer = FileWriter(trial_dir=str(folder), step=step, worker=worker)
    for name, value in tensors.items():
        writer.write_tensor(
            value, name, mode=ModeKeys[mode], mode_step=mode_step, timestamp=wall_time
        )
    writer.close()


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def both(tmp_path, tensors, *, step=10, mode="TRAIN", mode_step=9, wall_time=1.7e9 + 0.25):
    write_stock(tmp_path / "stock", step, mode, mode_step, tensors, wall_time)
    ours = SavedStep(
        step=step, mode=mode, mode_step=mode_step, tensors=tensors, wall_time=wall_time
    )
    write_step(str(tmp_path / "ours"), WORKER, ours)
    return files_of(tmp_path / "ours"), files_of(tmp_path / "stock")


def some_array(dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    numbers = np.random.default_rng(0).integers(0, 256, (*shape, dtype.itemsize), np.uint8)
    if dtype == np.bool_:
        numbers %= 2
    return numbers.view(dtype).reshape(shape)


@pytest.mark.parametrize("dtype", DTYPE_CODES, ids=str)
@pytest.mark.parametrize("mode", MODES)
def test_all_files_of_a_step_are_those_that_smdebug_writes(tmp_path, dtype, mode):
    tensors = {
        f"tensor/{len(shape)}_{i}": some_array(dtype, shape) for i, shape in enumerate(SHAPES)
    }
    ours, stock = both(tmp_path, tensors, mode=mode)
    assert ours == stock
    assert list(ours) == [
        "events/000000000010/000000000010_worker_0.tfevents",
        "index/000000000/000000000010_worker_0.json",
    ]


@pytest.mark.parametrize("step", [0, 1, 127, 128, 999, 1000, 123456789])
def test_steps_of_any_size_are_encoded_and_filed_alike(tmp_path, step):
    ours, stock = both(tmp_path, {"x": np.arange(3)}, step=step, mode_step=step // 2)
    assert ours == stock


@settings(max_examples=30, deadline=None)
@given(
    name=st.text(min_size=1, max_size=300).filter(
        lambda t: t.encode("utf-8", "ignore").decode() == t
    ),
    shape=st.lists(st.integers(1, 40), max_size=3),
    wall_time=st.one_of(st.just(0.25), st.floats(1, 4e9)),
)
def test_names_and_shapes_of_any_kind_are_encoded_alike(tmp_path_factory, name, shape, wall_time):
    tensors = {name: np.ones(shape, np.float32)}
    ours, stock = both(tmp_path_factory.mktemp("any"), tensors, wall_time=wall_time)
    assert ours == stock


def test_texts_are_written_as_smdebug_writes_them_for_xgboost(tmp_path):
    tensors = {
        "hyperparameters/booster": np.array(["gbtree"]),
        "trees/Feature": np.array(["f0", "Leaf", "größe", ""]),
    }
    ours, stock = both(tmp_path, tensors)
    assert ours == stock


def test_arrays_that_are_not_in_order_are_put_in_order(tmp_path):
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    odd = {
        "fortran": np.asfortranarray(array),
        "strided": array[:, ::2, ::-1],
        "broadcast": np.broadcast_to(np.float32(7), (3, 5)),
        "big_endian": array.astype(">f4"),
    }
    plain = {name: np.array(a, np.float32, order="C") for name, a in odd.items()}
    step = {"step": 3, "mode": "EVAL", "mode_step": 1, "wall_time": 1.0}
    write_step(str(tmp_path / "odd"), WORKER, SavedStep(tensors=odd, **step))
    write_step(str(tmp_path / "plain"), WORKER, SavedStep(tensors=plain, **step))
    assert files_of(tmp_path / "odd") == files_of(tmp_path / "plain")


def test_the_names_of_reductions_are_smdebugs():
    from smdebug.core.reductions import get_reduction_tensor_name, reverse_reduction_tensor_name

    for ours, (theirs, is_absolute) in {
        "mean": ("mean", False),
        "abs_max": ("max", True),
        "l2_norm": ("l2", False),
        "abs_l1_norm": ("l1", True),
    }.items():
        name = reduction_name(ours, "gradient/Net_fc.weight")
        assert name == get_reduction_tensor_name("gradient/Net_fc.weight", theirs, is_absolute)
        assert reverse_reduction_tensor_name(name)[1:] == (theirs, is_absolute)
        assert parse_reduction_name(name) == (ours, "gradient/Net_fc.weight")
    assert parse_reduction_name("gradient/Net_fc.weight") is None


def test_a_step_without_tensors_leaves_no_file(tmp_path):
    step = SavedStep(step=0, mode="TRAIN", mode_step=0)
    assert write_step(str(tmp_path / "t"), WORKER, step).size_bytes == 0
    assert files_of(tmp_path / "t") == {}


def test_shapes_alone_need_no_event_file(tmp_path):
    write_step(
        str(tmp_path), WORKER, SavedStep(step=0, mode="TRAIN", mode_step=0, shapes={"x": (2, 3)})
    )
    (name,) = files_of(tmp_path)
    assert json.loads((tmp_path / name).read_text()) == {
        "meta": {"mode": "TRAIN", "mode_step": 0},
        "tensor_payload": [],
        "shape_payload": [{"tensorname": "x", "originalname": "x", "shape": [2, 3]}],
    }


@pytest.mark.parametrize("size", [1, 1000, 2 << 20, (2 << 20) - 30, (4 << 20) + 12345])
def test_large_steps_take_another_way_and_have_the_same_bytes(tmp_path, monkeypatch, size):
    tensors = {"x": some_array(np.dtype("f4"), (size,)), "y": np.ones(2)}
    step = SavedStep(step=1, mode="TRAIN", mode_step=1, wall_time=1.0, tensors=tensors)
    for name, direct_bytes in (("direct", 0), ("plain", 1 << 60)):
        monkeypatch.setattr(step_file, "DIRECT_BYTES", direct_bytes)
        write_step(str(tmp_path / name), WORKER, step)
    assert files_of(tmp_path / "direct") == files_of(tmp_path / "plain")


def test_a_file_system_without_direct_writing_is_written_the_plain_way(tmp_path, monkeypatch):
    """As tmpfs of older kernels; there need not be one here, so the kernel's answer is played."""
    open_file, refused = os.open, []

    def refuse(path, flags, *rest, **options):
        if flags & os.O_DIRECT == os.O_DIRECT:
            refused.append(path)
            raise OSError(errno.EINVAL, "Invalid argument")
        return open_file(path, flags, *rest, **options)

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(step_file, "DIRECT_BYTES", 0)
    ours, stock = both(tmp_path, {"x": np.ones(5)})
    assert refused
    assert ours == stock

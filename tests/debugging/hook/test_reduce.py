"""Reductions of the hook beside torch's own, in double precision."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.debugging.hook import reduce as reduce_module
from stoker.debugging.hook.reduce import reduce, reduce_on_device
from stoker.debugging.reductions import REDUCTIONS

PIECE = 64


@pytest.fixture(autouse=True, scope="module")
def _small_pieces():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reduce_module, "_PIECE", PIECE)
        patch.setattr(reduce_module, "_SMALL", PIECE // 4)
        yield


def by_torch(tensor: torch.Tensor, name: str) -> float:
    basic = name.removeprefix("abs_")
    values = tensor.double().flatten()
    values = values.abs() if basic != name else values
    made = {
        "min": lambda: values.min(),
        "max": lambda: values.max(),
        "mean": lambda: values.mean(),
        "std": lambda: values.std(),
        "variance": lambda: values.var(),
        "sum": lambda: values.sum(),
        "prod": lambda: values.prod(),
        "l1_norm": lambda: values.norm(1),
        "l2_norm": lambda: values.norm(2),
    }
    return float(made[basic]())


@settings(deadline=None)
@given(
    st.integers(2, 5 * PIECE),
    st.sampled_from([torch.float32, torch.float64, torch.float16, torch.bfloat16]),
    st.sampled_from([0.0, 1.0, -1000.0]),
    st.integers(0, 9),
)
def test_all_reductions_are_torchs(size, dtype, offset, seed):
    generator = torch.Generator().manual_seed(seed)
    tensor = (torch.randn(size, generator=generator) + offset).to(dtype)
    found = reduce(tensor, REDUCTIONS)
    elsewhere = reduce_on_device(tensor, REDUCTIONS).tolist()
    largest = float(tensor.double().abs().max())
    for name, other in zip(REDUCTIONS, elsewhere, strict=True):
        if "prod" in name:
            continue  # overflows or vanishes by its nature
        expected = by_torch(tensor, name)
        # What single precision leaves of numbers this large.
        allowed = largest * (size if "sum" in name or "l1" in name else 1) * 1e-5
        if "std" in name or "var" in name:
            allowed = 1e-3 * (1 + expected)
        assert found[name] == pytest.approx(expected, rel=1e-5, abs=allowed), name
        assert other == pytest.approx(expected, rel=1e-4, abs=allowed * 10), name


@pytest.mark.parametrize("place", [0, PIECE, 3 * PIECE + 1])
def test_a_nan_anywhere_is_seen_everywhere(place):
    tensor = torch.ones(4 * PIECE)
    tensor[place] = math.nan
    assert all(math.isnan(value) for value in reduce(tensor, REDUCTIONS).values())


def test_infinities_stay_what_they_are():
    tensor = torch.tensor([1.0, math.inf, -3.0])
    found = reduce(tensor, ("max", "min", "sum", "abs_max", "l1_norm", "l2_norm", "abs_l2_norm"))
    assert found == {
        "max": math.inf,
        "min": -3,
        "sum": math.inf,
        "abs_max": math.inf,
        "l1_norm": math.inf,
        "l2_norm": math.inf,
        "abs_l2_norm": math.inf,
    }
    both = torch.tensor([math.inf, -math.inf, *[1.0] * 3 * PIECE])
    assert reduce(both, ("l2_norm",)) == {"l2_norm": float(both.norm())}


def test_one_element_and_none():
    assert reduce(torch.tensor(2.0), ("mean", "std", "l2_norm")) == {
        "mean": 2,
        "std": 0,
        "l2_norm": 2,
    }
    found = reduce(torch.empty(0, 3), ("sum", "l2_norm", "mean", "min", "std"))
    assert (found.pop("sum"), found.pop("l2_norm")) == (0, 0)
    assert all(math.isnan(value) for value in found.values())


def test_other_kinds_of_numbers_have_reductions_too():
    assert reduce(torch.tensor([1, -5, 3]), ("min", "abs_max", "mean", "prod")) == {
        "min": -5,
        "abs_max": 5,
        "mean": pytest.approx(-1 / 3),
        "prod": -15,
    }
    assert reduce(torch.tensor([True, False]), ("mean",)) == {"mean": 0.5}
    assert reduce(torch.tensor([3 + 4j]), ("max",)) == {"max": 5}
    pictures = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    assert reduce(pictures, ("sum",))["sum"] == pytest.approx(float(pictures.sum()), abs=1e-4)

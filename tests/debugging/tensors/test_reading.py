"""smdebug's reader reads what we write, and ours what smdebug writes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from smdebug.core.collection import Collection as StockCollection
from smdebug.core.collection_manager import CollectionManager
from smdebug.core.modes import ModeKeys
from smdebug.trials import create_trial

from stoker.debugging.description import Description
from stoker.debugging.need import Need
from stoker.debugging.tensors import (
    Collection,
    SavedStep,
    SavedTensors,
    Schedule,
    mark_end,
    write_collections,
    write_descriptions,
    write_step,
)
from stoker.errors import TensorMissing

from .test_format import WORKER, write_stock

# Of those that smdebug writes, its own reader knows these; int8 comes back without a sign.
STOCK_DTYPES = ["f2", "f4", "f8", "i4", "i8", "u1", "i1", "?", "c16"]
NOT_STOCK_DTYPES = ["i2", "u2", "u4", "u8", "c8"]
MODES = ("TRAIN", "EVAL", "PREDICT", "GLOBAL")


@pytest.fixture
def open_trial(monkeypatch):
    monkeypatch.setenv("SMDEBUG_TRAINING_END_DELAY_REFRESH", "0")
    return lambda folder: create_trial(str(folder))


def save(folder, step=0, mode="TRAIN", mode_step=None, worker=WORKER, **content):
    mode_step = step if mode_step is None else mode_step
    write_step(
        str(folder), worker, SavedStep(step=step, mode=mode, mode_step=mode_step, **content)
    )


def finish(folder, *collections, num_workers=1):
    for worker in range(num_workers):
        write_collections(str(folder), f"worker_{worker}", collections, num_workers=num_workers)
    mark_end(str(folder), is_job=False)


def values_of(dtype):
    numbers = np.array([0, 1, 2, 3, 100, 127])
    if np.dtype(dtype).kind in "if":
        numbers = np.append(numbers, [-1, -128])
    array = numbers.astype(dtype)
    if array.dtype.kind in "fc":
        array = np.append(array, np.array([np.nan, np.inf, -np.inf, -0.0], dtype))
    return array


def test_smdebug_reads_every_type_of_number_that_it_knows(tmp_path, open_trial):
    tensors = {f"vector {d}": values_of(d) for d in STOCK_DTYPES}
    tensors |= {f"scalar {d}": values_of(d)[1].reshape(()) for d in STOCK_DTYPES}
    tensors |= {f"fortran {d}": np.asfortranarray(np.ones((2, 3), d)) for d in STOCK_DTYPES}
    tensors |= {"big endian": np.arange(5.0).astype(">f8"), "texts": np.array(["a", "größe"])}
    save(tmp_path, tensors=tensors)
    finish(tmp_path)
    trial = open_trial(tmp_path)
    assert trial.tensor_names() == sorted(tensors)
    for name, expected in tensors.items():
        value = trial.tensor(name).value(0)
        if expected.dtype == np.int8:
            value = value.astype(np.int8)
        assert value.shape == expected.shape
        np.testing.assert_array_equal(value, expected)


def test_we_read_every_type_of_number_that_smdebug_writes(tmp_path):
    tensors = {f"vector {d}": values_of(d) for d in (*STOCK_DTYPES, *NOT_STOCK_DTYPES)}
    tensors |= {"scalar": np.array(3.5), "cube": np.arange(24).reshape(2, 3, 4)}
    tensors |= {"trees/Feature": np.array(["f0", "Leaf"]), "empty": np.empty((0, 3))}
    write_stock(tmp_path, 7, "EVAL", 3, tensors, 1.5)
    step = SavedTensors(tmp_path).at(7)
    assert (step.mode, step.mode_step, step.names) == ("EVAL", 3, tuple(sorted(tensors)))
    for name, expected in tensors.items():
        tensor = step.find(name)
        assert tensor.value().dtype == expected.dtype
        assert tensor.shape == expected.shape
        np.testing.assert_array_equal(tensor.value(), expected)


@settings(max_examples=60, deadline=None)
@given(
    array=hnp.arrays(
        st.sampled_from([*STOCK_DTYPES, *NOT_STOCK_DTYPES, ">f4", ">i2", "<U5"]).map(np.dtype),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=6),
    ),
    order=st.sampled_from("CF"),
)
def test_what_is_saved_is_read_back(tmp_path_factory, array, order):
    if array.dtype.kind == "U":
        array = np.array([text.encode("utf-8", "replace").decode() for text in array.flat])
    folder = tmp_path_factory.mktemp("any")
    save(folder, tensors={"x": np.array(array, order=order)})
    value = SavedTensors(folder).at(0).find("x").value()
    assert value.shape == array.shape
    assert not value.flags.writeable
    if array.size and array.dtype.kind != "U":
        assert value.dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(value, array)


def test_both_readers_agree_on_names_steps_modes_and_collections(tmp_path, open_trial):
    plan = [(0, "TRAIN", 0), (1, "TRAIN", 1), (2, "EVAL", 0), (5, "TRAIN", 2), (1203, "EVAL", 1)]
    for step, mode, mode_step in plan:
        loss = {"CrossEntropyLoss_output_0": np.float32(step).reshape(())}
        weight = {"Net_fc.weight": np.ones((2, 3))} if mode == "TRAIN" else {}
        save(
            tmp_path,
            step,
            mode,
            mode_step,
            tensors=loss | weight,
            reductions={"Net_fc.bias": {"abs_mean": 0.5, "l2_norm": step}},
            shapes={"Net_fc.bias": (4,)},
        )
    every = {mode: Schedule(save_interval=1) for mode in MODES}
    collections = [
        Collection(name="losses", include_regex=("[Ll]oss",), schedules=every),
        Collection(
            name="biases",
            tensor_names=("Net_fc.bias",),
            reductions=("abs_mean", "l2_norm"),
            save_raw_tensor=False,
            save_shape=True,
        ),
    ]
    finish(tmp_path, *collections)
    trial, saved = open_trial(tmp_path), SavedTensors(tmp_path)
    assert saved.has_ended
    assert saved.names() == trial.tensor_names()
    assert list(saved.steps()) == trial.steps() == [step for step, _, _ in plan]
    assert saved.workers == tuple(trial.workers())
    for step, mode, mode_step in plan:
        ours = saved.at(step)
        assert (ours.mode, ours.mode_step) == (mode, mode_step)
        assert trial.mode_modestep(step) == (ModeKeys[mode], mode_step)
        assert list(ours.names) == trial.tensor_names(step=step)
        bias = trial.tensor("Net_fc.bias")
        assert bias.reduction_value(step, "mean", abs=True) == 0.5
        assert bias.reduction_value(step, "l2") == ours.find("Net_fc.bias").reduction("l2_norm")
        assert tuple(bias.shape(step)) == ours.find("Net_fc.bias").shape == (4,)
        for name in ("losses", "biases"):
            assert [t.name for t in ours.needed(name)] == trial.tensor_names(
                step=step, collection=name
            )
    for collection in collections:
        stock = trial.collection(collection.name)
        assert stock.tensor_names == set(collection.tensor_names)
        assert tuple(stock.include_regex) == collection.include_regex
        assert saved.collections[collection.name] == collection
    assert trial.collection("biases").reduction_config.norms == ["l2"]
    assert trial.collection("losses").save_config.should_save_step(ModeKeys.EVAL, 3)


def test_collections_of_smdebug_are_understood(tmp_path):
    manager = CollectionManager()
    manager.add(StockCollection("custom", include_regex=["relu"], tensor_names=["x"]))
    manager.export(str(tmp_path), "worker_0_collections.json")
    tensors = {n: np.zeros(1) for n in ("x", "y", "relu_output_0", "gradient/x", "Net_weight")}
    write_stock(tmp_path, 0, "TRAIN", 0, tensors, 1.0)
    step = SavedTensors(tmp_path).at(0)
    assert [t.name for t in step.needed("custom")] == ["relu_output_0", "x"]
    assert [t.name for t in step.needed("gradients")] == ["gradient/x"]
    assert [t.name for t in step.needed("weights")] == ["Net_weight"]
    assert len(step.needed("all")) == 5


def test_a_need_is_met_by_descriptions_then_collections_then_names(tmp_path):
    described = [
        Description(name="features.1_output_0", kind="output", module_class="ReLU"),
        Description(name="head_bias_output_0", kind="output", module_class="Linear"),
        Description(name="Net_w", kind="weight"),
    ]
    write_descriptions(str(tmp_path), WORKER, described)
    biases = Collection(name="biases", include_regex=("bias",))
    listed = Collection(name="mine", tensor_names=("Net_w", "not saved"))
    write_collections(str(tmp_path), WORKER, [biases, listed])
    names = (*(d.name for d in described), "relu7_output", "Net_fc.bias")
    save(tmp_path, tensors={name: np.zeros(2) for name in names})
    step = SavedTensors(tmp_path).at(0)

    def needed(**need):
        return [tensor.name for tensor in step.needed(Need(**need))]

    relu = {"collection": "relu", "module_classes": ("ReLU",), "fallback_regex": "relu"}
    assert needed(**relu) == ["features.1_output_0"]
    assert needed(**relu | {"module_classes": ("GELU",)}) == ["relu7_output"]
    assert needed(**relu | {"regex": "^Net_"}) == ["Net_fc.bias", "Net_w"]
    assert needed(collection="mine", module_classes=("GELU",)) == ["Net_w"]
    # What the hook has described is not guessed at by its name.
    assert needed(collection="biases") == ["Net_fc.bias"]
    assert needed(collection="weights") == ["Net_w"]
    assert needed(collection="nothing of the kind") == []
    assert step.find("Net_w").description == described[2]
    assert step.find("Net_fc.bias").description.kind == "bias"


def test_descriptions_come_back_as_they_were_written(tmp_path):
    written = [
        Description(name="a"),
        Description(
            name="b",
            kind="input",
            module="layer.0",
            module_class="ReLU",
            position=2,
            is_model=True,
            is_of_loss=True,
            is_frozen=True,
        ),
    ]
    write_descriptions(str(tmp_path), WORKER, written)
    assert list(SavedTensors(tmp_path).descriptions.values()) == written


def test_xgboost_style_tensors_are_found_by_their_names(tmp_path):
    tensors = {f"feature_importance/weight/f{i}": np.array([0.1 * i]) for i in range(4)}
    tensors |= {"trees/Node": np.arange(7), "trees/Feature": np.array(["f0"] * 7)}
    write_stock(tmp_path, 0, "GLOBAL", 0, tensors, 1.0)
    step = SavedTensors(tmp_path).at(0)
    need = Need(collection="feature_importance", regex=".*feature_importance/weight")
    assert [float(t.value()[0]) for t in step.needed(need)] == [0.0, 0.1, 0.2, 0.1 * 3]
    assert list(step.find("trees/Feature").value()) == ["f0"] * 7


def test_reductions_are_read_where_they_were_saved_and_computed_where_not(tmp_path):
    save(
        tmp_path,
        tensors={"x": np.array([3.0, -4.0], np.float32)},
        reductions={"x": {"mean": 99.0}, "y": {"abs_mean": 2.0}},
    )
    x, y = (SavedTensors(tmp_path).at(0).find(name) for name in "xy")
    assert x.reduction("mean") == 99.0
    assert x.reduction("l2_norm") == 5.0
    assert x.saved_reductions == ("mean",)
    assert y.reduction("abs_mean") == 2.0
    assert not y.has_value
    assert y.shape is None
    with pytest.raises(TensorMissing, match="only abs_mean was saved"):
        y.value()
    with pytest.raises(TensorMissing, match="only abs_mean was saved"):
        y.reduction("max")
    with pytest.raises(TensorMissing, match="no reduction 'median'"):
        x.reduction("median")


def test_a_tensor_without_elements_keeps_its_shape(tmp_path, open_trial):
    save(tmp_path, tensors={"empty": np.empty((0, 3), np.float32), "x": np.ones(1)})
    finish(tmp_path)
    value = SavedTensors(tmp_path).at(0).find("empty").value()
    assert (value.shape, value.dtype) == ((0, 3), np.float32)
    assert tuple(open_trial(tmp_path).tensor("empty").shape(0)) == (0, 3)


def test_an_earlier_step_is_seen_from_a_later_one(tmp_path):
    for step in (0, 10, 20):
        save(tmp_path, step, "EVAL" if step == 10 else "TRAIN", tensors={"x": np.array(step)})
    saved = SavedTensors(tmp_path)
    now = saved.at(10)
    assert list(now.steps()) == [0, 10]
    assert list(now.steps("TRAIN")) == [0]
    assert now.at(0).find("x").value() == 0
    assert now.find("y") is None
    with pytest.raises(TensorMissing, match=r"step 5 .*\n.*0, 10, 20"):
        now.at(5)

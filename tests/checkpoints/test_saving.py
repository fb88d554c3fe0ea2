"""Saving in the background: what is copied when, what goes wrong, and where it is said."""

from __future__ import annotations

import errno
import fcntl
import functools
import operator
import os
import random
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

import stoker
from stoker.checkpoints.snapshot import Snapshot
from stoker.checkpoints.staging import Staging
from stoker.checkpoints.store import Store
from stoker.errors import CheckpointFailed, CheckpointMismatch


@pytest.fixture
def job(tmp_path):
    return stoker.job(root=tmp_path, environ={})


@pytest.fixture(autouse=True)
def _random_states_stay_with_the_test():
    yield
    torch.manual_seed(0), random.seed(0), np.random.seed(0)


def make_parts(width=8):
    model = nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width))
    return model, torch.optim.AdamW(model.parameters(), lr=0.1)


def train_one_step(model, optimizer):
    loss = model(torch.randn(4, model[0].in_features)).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def test_the_file_is_plain_safetensors(job):
    model, optimizer = make_parts()
    with stoker.checkpoints(job, model=model, optimizer=optimizer) as ckpt:
        train_one_step(model, optimizer)
        ckpt.advance()
    newest = Store(job.checkpoint_dir).newest()
    tensors = load_file(f"{newest.path}/rank00000.safetensors")
    assert torch.equal(tensors["model.0.weight"], model[0].weight)
    moment = optimizer.state[model[0].weight]["exp_avg"]
    assert torch.equal(tensors["optimizer.state.0.exp_avg"], moment)


def test_what_is_saved_is_the_state_at_the_save_though_training_continues(job):
    model, optimizer = make_parts(width=256)
    with stoker.checkpoints(job, model=model, optimizer=optimizer) as ckpt:
        train_one_step(model, optimizer)
        ckpt.advance()
        ckpt.save()
        saved = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        for _ in range(5):  # forward changes the statistics at once, step() the weights
            train_one_step(model, optimizer)
        ckpt.flush()
        newest = ckpt.store.newest()
    tensors = load_file(f"{newest.path}/rank00000.safetensors")
    for name, tensor in saved.items():
        assert torch.equal(tensors[f"model.{name}"], tensor), name


def test_an_optimizer_step_waits_for_the_copy(job):
    model, optimizer = make_parts()
    train_one_step(model, optimizer)
    settled = {parameter.data_ptr() for parameter in model.parameters()}
    state = {"model": model.state_dict()}
    snapshot = Snapshot(state, {}, settled=settled, is_leader=True)
    waited = threading.Thread(target=snapshot.wait)
    waited.start()
    assert waited.is_alive()
    staging = Staging()
    staging.reserve(snapshot.layout.size_bytes)
    snapshot.copy_early(staging)
    assert waited.is_alive()
    snapshot.copy_late(staging)
    waited.join(timeout=240)
    assert not waited.is_alive()


def test_an_optimizer_step_does_not_wait_for_the_disk(job, monkeypatch):
    model, optimizer = make_parts()
    write, is_disk_there = os.pwrite, threading.Event()

    def pwrite(*args):
        is_disk_there.wait(timeout=240)
        return write(*args)

    with stoker.checkpoints(job, model=model, optimizer=optimizer) as ckpt:
        train_one_step(model, optimizer)
        ckpt.advance()
        monkeypatch.setattr(os, "pwrite", pwrite)
        ckpt.save()
        saved = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        train_one_step(model, optimizer)
        assert not torch.equal(model[0].weight, saved["0.weight"])
        assert ckpt.store.newest() is None
        is_disk_there.set()
        ckpt.flush()
        newest = ckpt.store.newest()
    tensors = load_file(f"{newest.path}/rank00000.safetensors")
    assert torch.equal(tensors["model.0.weight"], saved["0.weight"])


@pytest.mark.parametrize(
    "later",
    [
        {"x": torch.arange(20.0)},
        {"x": torch.arange(10)},
        {"x": torch.arange(10.0), "y": torch.ones(3)},
        {"y": torch.arange(10.0)},
        {"x": torch.arange(10.0), "note": "a head of several blocks " * 1000},
        {"x": torch.arange(10.0) - 5},
    ],
    ids=["size", "dtype", "one more", "name", "head", "values alone"],
)
def test_a_state_that_changes_its_form_between_saves_comes_back_as_it_was(job, later):
    state = {"x": torch.arange(10.0)}
    with stoker.checkpoints(job, state=state) as ckpt:
        ckpt.advance()
        ckpt.save()
        ckpt.flush()
        state.clear()
        state.update(later)
        ckpt.advance()
    assert len(Store(job.checkpoint_dir).read_all()) == 2
    resumed: dict[str, object] = {}
    with stoker.checkpoints(job, state=resumed):
        assert resumed.keys() == later.keys()
        for name, value in later.items():
            same = torch.equal if isinstance(value, torch.Tensor) else operator.eq
            assert same(resumed[name], value), name


def test_a_parameter_changed_outside_a_step_while_it_is_copied_is_found_out():
    model, _ = make_parts()
    settled = {parameter.data_ptr() for parameter in model.parameters()}
    snapshot = Snapshot({"model": model.state_dict()}, {}, settled=settled, is_leader=True)
    staging = Staging()
    staging.reserve(snapshot.layout.size_bytes)
    with torch.no_grad():
        model[0].weight.clamp_(-1, 1)
    with pytest.raises(CheckpointFailed, match=r"model\.0\.weight was changed outside"):
        snapshot.copy_late(staging)


def test_a_script_that_changes_a_parameter_meanwhile_is_told_what_helps(job, monkeypatch):
    model, optimizer = make_parts()
    is_changed, copy = threading.Event(), Snapshot.copy_late

    def copy_late(*args):
        assert is_changed.wait(timeout=240)
        copy(*args)

    monkeypatch.setattr(Snapshot, "copy_late", copy_late)
    train_one_step(model, optimizer)
    with stoker.checkpoints(job, model=model, optimizer=optimizer) as ckpt:
        ckpt.advance()
        ckpt.save()
        with torch.no_grad():
            model[0].weight.clamp_(-1, 1)
        is_changed.set()
        with pytest.raises(CheckpointFailed, match=r"model\.0\.weight was changed") as caught:
            ckpt.flush()
    assert "overlap=False" in caught.value.fix


def test_the_memory_is_used_again(job):
    model, optimizer = make_parts()
    with stoker.checkpoints(job, model=model, optimizer=optimizer) as ckpt:
        staging = ckpt._recorder._saver.staging
        addresses = set()
        for _ in range(4):
            train_one_step(model, optimizer)
            ckpt.advance()
            ckpt.save()
            ckpt.flush()
            addresses.add(np.asarray(staging.memory(1)).ctypes.data)
    assert len(addresses) == 1


def test_all_kinds_of_state_come_back(job):
    kept = {
        "numbers": [1, -2.5, float("inf"), 10**30, True, None],
        "texts": ("a", "ü", b"\0bytes"),
        3: {"nested": {1, 2}},
        "array": np.arange(3, dtype=np.int16),
        "scalar": np.float64(0.1),
        "complex": torch.tensor([1 + 2j]),
        "half": torch.ones(2, dtype=torch.bfloat16),
        "empty": torch.empty(0, 3),
        "zero": torch.tensor(7),
        "sparse": torch.eye(2).to_sparse(),
        "channels_last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "conjugate": torch.tensor([1 + 2j]).conj(),
        "negative": torch.tensor([1 + 2j, 3 - 4j]).conj().imag,
        "negative view": torch.ones(3)._neg_view(),
    }
    kept["positive"] = kept["negative"]._neg_view()  # the same memory, with another sign
    with stoker.checkpoints(job, kept=dict(kept)) as ckpt:
        ckpt.advance()
    found: dict[object, object] = {}
    with stoker.checkpoints(job, kept=found):
        pass
    assert found.keys() == kept.keys()
    for key in ("numbers", "texts", 3, "scalar"):
        assert found[key] == kept[key], key
    tensors = ["complex", "half", "empty", "zero", "channels_last"]
    for key in [*tensors, "conjugate", "negative", "negative view", "positive"]:
        assert torch.equal(found[key], kept[key]), key
    assert found["channels_last"].stride() == kept["channels_last"].stride()
    assert torch.equal(found["sparse"].to_dense(), torch.eye(2))
    assert (found["array"] == kept["array"]).all()
    assert found["array"].dtype == np.int16


def test_what_cannot_be_loaded_safely_is_refused_when_it_is_saved(job):
    with (
        pytest.raises(CheckpointFailed, match=r"kept\.what holds a Thread"),
        stoker.checkpoints(job, kept={"what": threading.Thread()}) as ckpt,
    ):
        ckpt.save()


def test_a_tensor_without_memory_of_its_own_is_refused(job):
    kept = {"pair": TwoTensor(torch.ones(3), torch.zeros(3))}
    with (
        pytest.raises(CheckpointFailed, match=r"kept\.pair holds a TwoTensor"),
        stoker.checkpoints(job, kept=kept) as ckpt,
    ):
        ckpt.save()


def test_tied_weights_are_stored_once(job):
    model = nn.Sequential(nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False))
    model[1].weight = model[0].weight
    with stoker.checkpoints(job, model=model) as ckpt:
        ckpt.advance()
    (saved,) = Store(job.checkpoint_dir).read_all()
    tensors = load_file(f"{saved.path}/rank00000.safetensors")
    assert [name for name in tensors if name.startswith("model")] == ["model.0.weight"]
    with torch.no_grad():
        model[0].weight.zero_()
    with stoker.checkpoints(job, model=model):
        assert model[1].weight.abs().sum() > 0


def test_other_hyperparameters_are_warned_about_or_refused(job, capsys):
    with stoker.checkpoints(job, config={"lr": 0.1, "api_key": "hush-hush-1"}, a={}) as ckpt:
        ckpt.advance()
    changed = {"lr": 0.2, "api_key": "hush-hush-2"}
    with stoker.checkpoints(job, config=changed, a={}):
        pass
    said = capsys.readouterr().err
    assert "lr: 0.1 → 0.2" in said
    assert "api_key" in said
    assert "hush" not in said
    with (
        pytest.raises(CheckpointMismatch, match=r"lr: 0\.1 → 0\.2"),
        stoker.checkpoints(job, config=changed, if_changed="refuse", a={}),
    ):
        pass


def test_another_model_is_a_mismatch_with_a_fix(job):
    with stoker.checkpoints(job, model=nn.Linear(2, 2)) as ckpt:
        ckpt.advance()
    with (
        pytest.raises(CheckpointMismatch, match=r"does not fit model: (.|\n)*size mismatch"),
        stoker.checkpoints(job, model=nn.Linear(3, 3)),
    ):
        pass


def test_the_best_is_kept_next_to_the_newest(job):
    model, _ = make_parts()
    with stoker.checkpoints(job, model=model, keep=1) as ckpt:
        for accuracy in (0.1, 0.9, 0.5, 0.6):
            ckpt.advance()
            assert ckpt.best(accuracy) == (accuracy in (0.1, 0.9))
            ckpt.save()
    store = Store(job.checkpoint_dir)
    assert store.best().manifest.metric.value == 0.9
    assert [c.step for c in store.read_all()] == [2, 4]
    with stoker.checkpoints(job, model=model) as ckpt:
        assert not ckpt.best(0.8)  # it remembers


@pytest.mark.parametrize("mode", ["max", "min"])
def test_a_metric_that_is_not_a_number_is_never_the_best(job, mode):
    nan = float("nan")
    with stoker.checkpoints(job, a={}) as ckpt:
        ckpt.advance()
        assert not ckpt.best(nan, mode=mode)
        assert ckpt.best(0.5, mode=mode)
        assert not ckpt.best(nan, mode=mode)
    with stoker.checkpoints(job, a={}) as ckpt:
        assert ckpt.progress.best == 0.5
        assert not ckpt.best(nan, mode=mode)
        ckpt.progress.best = nan  # as checkpoints of earlier versions have it
        ckpt.advance()
    with stoker.checkpoints(job, a={}) as ckpt:
        assert ckpt.best(0.1, mode=mode)
        assert ckpt.progress.best == 0.1


def test_a_full_disk_surfaces_at_the_next_call(tmp_path):
    """A file size limit stands for the full disk: the same error from the same call."""
    code = f"""
import errno, os, resource, signal, torch, stoker
from stoker.checkpoints.store import Store
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
job = stoker.job(root={str(tmp_path)!r})
model = torch.nn.Linear(600, 600)
with stoker.checkpoints(job, model=model) as ckpt:
    ckpt.advance(); ckpt.save(); ckpt.flush()
    resource.setrlimit(resource.RLIMIT_FSIZE, (96 * 1024, resource.RLIM_INFINITY))
    ckpt.advance(); ckpt.save()
    try:
        ckpt.flush()
    except stoker.StokerError as error:
        print(error)
    store = Store(job.checkpoint_dir)
    print("meanwhile", store.newest().step, os.listdir(store.folder))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
"""
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=False
    )
    assert "the checkpoint of step 2 could not be written: rank 0: File too large" in ended.stdout
    assert "fix: " in ended.stdout
    assert "meanwhile 1 ['000001-step-1']" in ended.stdout  # the one before is as it was
    # There is room again, and what failed is saved when the block is left.
    assert Store(tmp_path / "checkpoints").newest().step == 2


def test_a_folder_that_cannot_be_written_is_said_at_the_start(job, tmp_path):
    (tmp_path / "checkpoints").write_text("a file where the folder should be")
    with (
        pytest.raises(CheckpointFailed, match="no checkpoint can be written to"),
        stoker.checkpoints(job, a={}),
    ):
        pass


def test_two_writers_in_one_folder_lose_nothing(job):
    first, second = {"who": "first"}, {"who": "second"}
    with (
        stoker.checkpoints(job, keep=9, kept=first) as one,
        stoker.checkpoints(job, keep=9, kept=second) as two,
    ):
        for _ in range(3):
            one.advance(), two.advance()
            one.save(), two.save()
    everything = Store(job.checkpoint_dir).read_all()
    assert len(everything) == 6
    assert not [c for c in everything if c.problem]


def test_an_error_of_the_script_is_its_own_and_saves_nothing(job):
    def fail():
        with stoker.checkpoints(job, a={}) as ckpt:
            ckpt.advance()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert Store(job.checkpoint_dir).read_all() == []


def test_a_second_loop_over_batches_is_a_mistake_that_is_named(job):
    def loop_twice():
        with stoker.checkpoints(job, a={}) as ckpt:
            for _ in ckpt.range(1):
                list(ckpt.batches([1, 2]))
                list(ckpt.batches([3]))

    with pytest.raises(CheckpointFailed, match="a second time in epoch 0"):
        loop_twice()


def test_a_thing_without_state_is_refused(job):
    with pytest.raises(CheckpointFailed, match="model is a int"):
        stoker.checkpoints(job, model=3)


def test_a_file_system_that_refuses_direct_writes_only_when_they_come(job, monkeypatch):
    """As some network file systems do; there is none here, so the kernel's answer is played."""
    write, refused = os.pwrite, []

    def pwrite(handle, content, start):
        if fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_DIRECT:
            refused.append(start)
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return write(handle, content, start)

    monkeypatch.setattr(os, "pwrite", pwrite)
    with stoker.checkpoints(job, state={"x": torch.ones(5000)}) as ckpt:
        ckpt.advance()
    assert refused == [0]
    assert Store(job.checkpoint_dir).newest().step == 1


def test_a_place_whose_save_failed_is_saved_when_the_block_is_left(job):
    state = {"x": torch.ones(10)}
    with stoker.checkpoints(job, state=state) as ckpt:
        ckpt.advance()
        ckpt.save()
        ckpt.flush()
        ckpt.advance()
        hidden = job.checkpoint_dir.with_name("hidden")
        job.checkpoint_dir.rename(hidden)
        job.checkpoint_dir.touch()  # not even root writes into a file as if it were a folder
        ckpt.save()
        with pytest.raises(CheckpointFailed):
            ckpt.flush()
        job.checkpoint_dir.unlink()
        hidden.rename(job.checkpoint_dir)
    assert Store(job.checkpoint_dir).newest().step == 2


@pytest.mark.parametrize(("before", "now"), [("SGD", "Adam"), ("Adam", "SGD")])
def test_the_state_of_another_optimizer_is_a_mismatch(job, before, now):
    model = torch.nn.Linear(2, 2)
    optimizer = getattr(torch.optim, before)(model.parameters())
    with stoker.checkpoints(job, optimizer=optimizer) as ckpt:
        ckpt.advance()
    optimizer = getattr(torch.optim, now)(model.parameters())
    with (
        pytest.raises(CheckpointMismatch, match=f"of another optimizer than {now}"),
        stoker.checkpoints(job, optimizer=optimizer),
    ):
        pass


@pytest.mark.parametrize(
    "part",
    [
        {"x": np.longdouble(1)},
        {"x": np.zeros(2, np.longdouble)},
        torch.nn.LazyLinear(2),
        functools.reduce(lambda inner, _: {"inner": inner}, range(3000), {}),
    ],
    ids=["scalar", "array", "lazy", "deep"],
)
def test_what_cannot_be_stored_is_refused_by_its_name(job, part):
    with (
        pytest.raises(CheckpointFailed, match=r"^part"),
        stoker.checkpoints(job, part=part) as ckpt,
    ):
        ckpt.save()


def test_an_array_of_another_byte_order_comes_back_in_the_machines(job):
    with stoker.checkpoints(job, history={"x": np.arange(3, dtype=">f4")}) as ckpt:
        ckpt.advance()
    history: dict[str, np.ndarray] = {}
    with stoker.checkpoints(job, history=history):
        assert history["x"].tolist() == [0, 1, 2]
        assert history["x"].dtype == np.float32

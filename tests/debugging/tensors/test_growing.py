"""A folder that grows while it is read: late steps, several workers, damaged files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
from smdebug.trials import create_trial

from stoker.debugging.description import Description
from stoker.debugging.tensors import (
    Collection,
    SavedTensors,
    mark_end,
    saved_tensors,
    write_collections,
    write_descriptions,
)
from stoker.debugging.tensors import index as index_folder
from stoker.debugging.tensors import saved_tensors as completeness_module
from stoker.debugging.tensors.index import read_index
from stoker.debugging.tensors.layout import events_file, index_file
from stoker.errors import TensorMissing, TensorsUnreadable

from .test_format import WORKER
from .test_reading import save

ONE = {"x": np.arange(3.0)}


def announce(folder, num_workers):
    for worker in range(num_workers):
        write_collections(str(folder), f"worker_{worker}", [], num_workers=num_workers)


def test_new_steps_are_found_as_they_come_in_any_order(tmp_path):
    saved = SavedTensors(tmp_path / "not there yet")
    assert (saved.refresh(), list(saved.steps()), saved.workers) == ([], [], ())
    folder = tmp_path / "not there yet"
    for steps in [[0, 1], [2500], [7, 3], [999, 1000], []]:
        for step in steps:
            save(folder, step, "TRAIN" if step % 2 else "EVAL", tensors=ONE)
        assert saved.refresh() == sorted(steps)
    assert list(saved.steps()) == [0, 1, 3, 7, 999, 1000, 2500]
    assert list(saved.steps("EVAL")) == [0, 1000, 2500]
    assert list(saved.steps("PREDICT")) == []
    assert list(saved.at(7).steps()) == [0, 1, 3, 7]


def test_no_step_of_a_fast_writer_is_found_after_a_later_one(tmp_path):
    # Listing a folder may miss a file and show the next one, if both appear meanwhile.
    program = """
import os, sys
for step in range(6000):
    folder = f"{sys.argv[1]}/index/{step // 1000:09d}"
    os.makedirs(folder, exist_ok=True)
    file = f"{folder}/{step:012d}_worker_0.json"
    with open(f"{file}.sagemaker-ignore", "w") as unnamed:
        unnamed.write('{"meta": {"mode": "TRAIN", "mode_step": 0}, "shape_payload": []}')
    os.replace(f"{file}.sagemaker-ignore", file)
"""
    saved = SavedTensors(tmp_path)
    found = []
    with subprocess.Popen([sys.executable, "-c", program, tmp_path]) as writer:
        is_over = False
        while not is_over:
            is_over = writer.poll() is not None  # asked first: then this look is the last
            found += saved.refresh()
    assert writer.returncode == 0
    assert found == list(range(6000))


def test_a_late_step_is_found_in_a_folder_that_had_settled(tmp_path, monkeypatch):
    monkeypatch.setattr(index_folder, "_SETTLED_SECONDS", 0)
    for step in (0, 5, 1500):
        save(tmp_path, step, tensors=ONE)
    long_ago = time.time() - 1000
    for folder in ("index/000000000", "index/000000001"):
        os.utime(tmp_path / folder, (long_ago, long_ago))
    saved = SavedTensors(tmp_path)
    assert saved.refresh() == []
    save(tmp_path, 3, tensors=ONE)
    assert saved.refresh() == [3]


def test_old_folders_are_not_listed_again(tmp_path, monkeypatch):
    monkeypatch.setattr(index_folder, "_SETTLED_SECONDS", 0)
    for step in range(0, 5000, 500):
        save(tmp_path, step, tensors=ONE)
    long_ago = time.time() - 1000
    for folder in (tmp_path / "index").iterdir():
        os.utime(folder, (long_ago, long_ago))
    saved = SavedTensors(tmp_path)
    listed = []
    list_folder = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: listed.append(path) or list_folder(path))
    assert saved.refresh() == []
    assert listed == []
    save(tmp_path, 4999, tensors=ONE)
    assert saved.refresh() == [4999]
    assert listed == [f"{tmp_path}/index/000000004"]


def test_a_step_is_complete_when_all_workers_have_written_it(tmp_path):
    announce(tmp_path, 2)
    saved = SavedTensors(tmp_path)
    save(tmp_path, 0, worker="worker_0", tensors=ONE)
    assert saved.refresh() == []
    with pytest.raises(TensorMissing):
        saved.at(0)
    save(tmp_path, 0, worker="worker_1", tensors={"x": np.ones(1), "only here": np.ones(1)})
    assert saved.refresh() == [0]
    step = saved.at(0)
    assert [(t.name, t.worker) for t in step.needed("all")] == [
        ("only here", "worker_1"),
        ("x", "worker_0"),
        ("x", "worker_1"),
    ]
    assert step.find("x").worker == "worker_0"
    assert [t.worker for t in step.all("x")] == ["worker_0", "worker_1"]
    assert saved.workers == step.workers == ("worker_0", "worker_1")


def test_a_step_that_a_worker_left_out_counts_once_a_later_one_is_complete(tmp_path):
    announce(tmp_path, 2)
    saved = SavedTensors(tmp_path)
    for step in (0, 1, 2, 3):
        save(tmp_path, step, worker="worker_0", tensors=ONE)
    save(tmp_path, 2, worker="worker_1", tensors=ONE)
    assert saved.refresh() == [0, 1, 2]
    mark_end(str(tmp_path), is_job=False)
    assert saved.refresh() == [3]
    assert saved.has_ended
    assert saved.at(3).workers == ("worker_0",)


def test_what_a_worker_adds_late_is_seen_too(tmp_path):
    announce(tmp_path, 2)
    save(tmp_path, 0, worker="worker_0", tensors=ONE)
    save(tmp_path, 1, worker="worker_0", tensors=ONE)
    save(tmp_path, 1, worker="worker_1", tensors=ONE)
    saved = SavedTensors(tmp_path)
    assert len(saved.at(0).needed("all")) == 1
    save(tmp_path, 0, worker="worker_1", tensors=ONE)
    assert saved.refresh() == []
    assert len(saved.at(0).needed("all")) == 2


def test_a_worker_that_never_comes_is_not_waited_for_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(completeness_module, "_MOST_WAITING", 10)
    announce(tmp_path, 2)
    saved = SavedTensors(tmp_path)
    for step in range(10):
        save(tmp_path, step, worker="worker_0", tensors=ONE)
    assert saved.refresh() == []
    save(tmp_path, 10, worker="worker_0", tensors=ONE)
    assert saved.refresh() == [0, 1, 2, 3, 4, 5]


def test_both_readers_see_the_same_steps_of_two_workers(tmp_path, monkeypatch):
    monkeypatch.setenv("SMDEBUG_TRAINING_END_DELAY_REFRESH", "0")
    announce(tmp_path, 2)
    for step, workers in enumerate(["01", "0", "01", "1", "0"]):
        for worker in workers:
            save(tmp_path, step, worker=f"worker_{worker}", tensors=ONE)
    trial, saved = create_trial(str(tmp_path)), SavedTensors(tmp_path)
    assert list(saved.steps()) == trial.steps() == [0, 1, 2]
    mark_end(str(tmp_path), is_job=False)
    saved.refresh()
    assert list(saved.steps()) == trial.steps() == [0, 1, 2, 3, 4]
    assert saved.workers == tuple(trial.workers())


def test_collections_and_descriptions_that_come_later_are_read_again(tmp_path):
    save(tmp_path, 0, tensors={"a": np.ones(1), "b": np.ones(1)})
    saved = SavedTensors(tmp_path)
    assert saved.at(0).needed("mine") == []
    write_collections(str(tmp_path), WORKER, [Collection(name="mine", tensor_names=("a",))])
    saved.refresh()
    assert [t.name for t in saved.at(0).needed("mine")] == ["a"]
    write_collections(str(tmp_path), WORKER, [Collection(name="mine", tensor_names=("b",))])
    write_descriptions(str(tmp_path), WORKER, [Description(name="a", kind="weight")])
    saved.refresh()
    assert [t.name for t in saved.at(0).needed("mine")] == ["b"]
    assert [t.name for t in saved.at(0).needed("weights")] == ["a"]


def test_collections_of_several_workers_are_joined(tmp_path):
    for worker, name in ((0, "a"), (1, "b")):
        mine = Collection(name="mine", tensor_names=(name,))
        write_collections(str(tmp_path), f"worker_{worker}", [mine], num_workers=2)
    assert SavedTensors(tmp_path).collections["mine"].tensor_names == ("a", "b")


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"[]", b"\xff\xfe", b'{"collections": 3}', b'{"tensors": [3]}'),
        b'{"collections": {}, "_meta": {"num_workers": Infinity}}',
        b'{"tensors": [{"name": ["x"]}]}',
        b'{"collections": {"all": {"tensor_names": [["x"]]}}, "_meta": {"num_workers": 1}}',
        b'{"collections": {"all": {"include_regex": ["(", 3, "a{9999999999}"]}},'
        b' "_meta": {"num_workers": 1}}',
    ],
)
def test_damaged_notes_are_passed_over(tmp_path, content):
    save(tmp_path, 0, tensors=ONE)
    for name in (
        "collections/000000000/worker_0_collections.json",
        "stoker/worker_0_tensors.json",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    saved = SavedTensors(tmp_path)
    assert list(saved.steps()) == [0]
    assert [t.name for t in saved.at(0).needed("all")] == ["x"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"meta": {}}',
        b'{"meta": {"mode": "SLEEP", "mode_step": 1}}',
        b'{"meta": {"mode": "TRAIN", "mode_step": "x"}}',
        b'{"meta": {"mode": 3, "mode_step": 1}}',
        b'{"meta": {"mode": "TRAIN", "mode_step": Infinity}}',
    ],
)
def test_a_damaged_index_hides_its_step_and_no_other(tmp_path, content):
    for step in range(3):
        save(tmp_path, step, tensors=ONE)
    file = tmp_path / index_file(1, WORKER)
    whole = file.read_bytes()
    file.write_bytes(content)
    saved = SavedTensors(tmp_path)
    assert list(saved.steps()) == [0, 2]
    assert saved.refresh() == []
    assert list(saved.damaged) == [str(file)]
    assert str(file) in str(saved.damaged[str(file)])
    file.write_bytes(whole)  # as when the rest of a copy arrives
    assert saved.refresh() == [1]
    assert not saved.damaged
    assert saved.names() == ["x"]


def test_an_index_damaged_behind_its_head_is_named_when_it_is_read(tmp_path):
    for step in range(2):
        save(tmp_path, step, tensors=ONE)
    file = tmp_path / index_file(1, WORKER)
    file.write_bytes(file.read_bytes()[:-30])
    saved = SavedTensors(tmp_path)
    with pytest.raises(TensorsUnreadable, match=f"{file}.*\n.*fix:.*the other steps"):
        saved.at(1)
    assert saved.at(0).find("x").value()[2] == 2
    assert saved.names() == ["x"]


def test_files_of_no_concern_are_passed_over(tmp_path):
    save(tmp_path, 0, tensors=ONE)
    folder = tmp_path / "index/000000000"
    for name in ("000000000001_worker_0.json.12.sagemaker-ignore", "notes.json", "x.tmp"):
        (folder / name).write_text("{}")
    (tmp_path / "index/file").write_text("")
    (tmp_path / "collections/000000000").mkdir(parents=True)
    (tmp_path / "collections/000000000/other.json").write_text("{}")
    saved = SavedTensors(tmp_path)
    assert (list(saved.steps()), saved.damaged) == ([0], {})


def test_a_truncated_event_file_is_named_and_spoils_nothing_else(tmp_path):
    tensors = {"a": np.arange(100.0), "b": np.arange(100.0)}
    for step in range(2):
        save(tmp_path, step, tensors=tensors)
    file = tmp_path / events_file(1, WORKER)
    whole = file.read_bytes()
    for size in (0, 5, len(whole) // 2 - 1, len(whole) - 1):
        file.write_bytes(whole[:size])
        step = SavedTensors(tmp_path).at(1)
        with pytest.raises(
            TensorsUnreadable, match=f"b in {file} is damaged: it ends at byte {size}"
        ):
            step.find("b").value()
        if size > len(whole) // 2:
            assert step.find("a").value()[99] == 99
    assert SavedTensors(tmp_path).at(0).find("b").value()[99] == 99


def test_names_come_from_steps_that_were_read_and_those_that_were_not(tmp_path, monkeypatch):
    for step, name in enumerate("abc"):
        save(tmp_path, step, tensors={name: np.ones(1)})
    saved = SavedTensors(tmp_path)
    for step in (0, 1):
        saved.at(step)
    read = []
    monkeypatch.setattr(
        saved_tensors, "read_index", lambda path: read.append(path) or read_index(path)
    )
    assert saved.names() == saved.names() == ["a", "b", "c"]
    assert read == [f"{tmp_path}/{index_file(2, WORKER)}"]


def test_a_missing_event_file_is_named(tmp_path):
    save(tmp_path, 0, tensors=ONE)
    shutil.rmtree(tmp_path / "events")
    with pytest.raises(TensorsUnreadable, match="tfevents cannot be read: No such file"):
        SavedTensors(tmp_path).at(0).find("x").value()


def test_every_flipped_bit_outside_the_numbers_is_noticed_or_harmless(tmp_path):
    """Content has no checksum in this format; the frame around it is proven."""
    save(tmp_path, 0, tensors={"name": np.arange(4, dtype=np.float32)})
    file = tmp_path / events_file(0, WORKER)
    whole = bytearray(file.read_bytes())
    content = np.arange(4, dtype=np.float32).tobytes()
    start = whole.index(content)
    unnoticed = set()
    for position in [*range(start), *range(start + len(content), len(whole))]:
        for bit in range(8):
            flipped = whole.copy()
            flipped[position] ^= 1 << bit
            file.write_bytes(flipped)
            tensor = SavedTensors(tmp_path).at(0).find("name")
            try:
                value = tensor.value()
            except TensorsUnreadable:
                continue
            # Time, step, names of dimensions and the mode are told by the index, too.
            assert value.nbytes == len(content)
            unnoticed.add(position)
    assert unnoticed.isdisjoint(range(12))
    assert unnoticed.isdisjoint(range(len(whole) - 4, len(whole)))

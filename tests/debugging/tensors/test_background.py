"""The thread that writes: in order, within bounds, and never a reason for training to fail."""

from __future__ import annotations

import errno
import mmap
import os
import resource
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest
from smdebug.trials import create_trial

import stoker
from stoker.debugging.tensors import (
    BackgroundWriter,
    SavedStep,
    SavedTensors,
    appended_files,
    mark_end,
    step_file,
    write_collections,
    write_step,
)

from .test_format import WORKER, files_of

DEADLINE_SECONDS = 240
SOURCE = Path(stoker.__file__).parents[1]


def make_step(step=0, size=10, **content):
    tensors = {"x": np.full(size, step, np.float32)}
    return SavedStep(step=step, mode="TRAIN", mode_step=step, **{"tensors": tensors, **content})


class Gate:
    """A step that is being made until it is let through: so the thread is busy meanwhile."""

    def __init__(self) -> None:
        self._is_reached, self._is_open = threading.Event(), threading.Event()

    def __call__(self) -> SavedStep:
        self._is_reached.set()
        assert self._is_open.wait(DEADLINE_SECONDS)
        return make_step(999)

    def wait(self) -> None:
        assert self._is_reached.wait(DEADLINE_SECONDS)

    def open(self) -> None:
        self._is_open.set()


@pytest.fixture
def said():
    return []


@pytest.fixture
def make_writer(tmp_path, said):
    writers = []

    def make(folder=None, **options):
        writer = BackgroundWriter(
            str(folder or tmp_path / "t"), WORKER, report=said.append, **options
        )
        writers.append(writer)
        return writer

    others = threading.enumerate()
    yield make
    for writer in writers:
        writer.close()
    left = [thread for thread in threading.enumerate() if thread not in others]
    assert not [thread for thread in left if thread.name == "stoker-tensors"]


def test_steps_are_written_in_order_and_given_back(tmp_path, make_writer, said):
    writer, done = make_writer(), []
    for step in range(20):
        assert writer.write(make_step(step), on_done=lambda step=step: done.append(step))
    tally = writer.close()
    assert done == list(range(20))
    assert (tally.written, tally.dropped, tally.failed) == (20, 0, 0)
    on_disk = sum(len(content) for content in files_of(tmp_path / "t").values())
    assert tally.size_bytes == on_disk
    saved = SavedTensors(tmp_path / "t")
    assert [saved.at(step).find("x").value()[0] for step in saved.steps()] == done
    assert said == []


def test_a_step_is_visible_after_a_flush(tmp_path, make_writer):
    writer, saved = make_writer(), SavedTensors(tmp_path / "t")
    for step in range(3):
        writer.write(make_step(step))
        assert writer.flush()
        assert saved.refresh() == [step]


def test_other_work_keeps_its_place_in_the_order(tmp_path, make_writer):
    writer, gate = make_writer(), Gate()
    writer.write(gate)
    write = lambda: write_collections(str(tmp_path / "t"), WORKER, [])  # noqa: E731
    writer.run(write)
    writer.write(make_step(1000))
    gate.wait()
    assert not (tmp_path / "t").exists()
    gate.open()
    writer.close()
    assert list(SavedTensors(tmp_path / "t").steps()) == [999, 1000]
    assert (tmp_path / "t/collections/000000000/worker_0_collections.json").exists()


def test_a_kernel_without_huge_pages_writes_past_the_cache_anyway(tmp_path, monkeypatch):
    class Memory(mmap.mmap):
        def madvise(self, *_: object) -> None:
            raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(appended_files, "_SPARE", [])
    monkeypatch.setattr(appended_files.mmap, "mmap", Memory)
    assert isinstance(appended_files._make_buffer(), Memory)


def test_steps_are_written_where_no_thread_can_be_started(
    tmp_path, make_writer, said, monkeypatch
):
    """From Python 3.12 on none can in an exit function, where a short run hands its steps over."""

    def refuse(thread):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    writer, done = make_writer(), []
    monkeypatch.setattr(threading.Thread, "start", refuse)
    for step in range(3):
        assert writer.write(make_step(step), size_bytes=40, on_done=lambda: done.append(True))
    assert writer.flush()
    tally = writer.close()
    assert (tally.written, tally.dropped, tally.failed) == (3, 0, 0)
    assert len(done) == 3
    assert list(SavedTensors(tmp_path / "t").steps()) == [0, 1, 2]
    assert said == []


def test_a_full_queue_makes_the_training_wait(make_writer, said):
    writer, gate, order = make_writer(limit_bytes=100), Gate(), []
    writer.write(gate, size_bytes=61, on_done=lambda: order.append("room"))
    gate.wait()

    def train():
        writer.write(make_step(1))  # 40 bytes, and 39 are left
        order.append("training goes on")

    training = threading.Thread(target=train)
    training.start()
    gate.open()
    training.join(DEADLINE_SECONDS)
    assert order == ["room", "training goes on"]
    assert writer.close().written == 2
    assert said == []


def test_a_full_queue_drops_whole_steps_where_that_is_the_policy(tmp_path, make_writer, said):
    writer, gate, back = make_writer(limit_bytes=100, when_full="drop"), Gate(), []
    assert writer.write(gate, size_bytes=70)
    gate.wait()
    assert [writer.write(make_step(step), on_done=lambda: back.append(1)) for step in (1, 2)] == [
        False,
        False,
    ]
    assert len(back) == 2
    assert len(said) == 1
    assert "whole steps are left out; save less often" in said[0]
    gate.open()
    assert writer.flush()
    assert writer.write(make_step(3))
    tally = writer.close()
    assert (tally.written, tally.dropped) == (2, 2)
    assert "of 2 steps; 2 were left out because the disk was too slow, 0" in said[1]
    assert list(SavedTensors(tmp_path / "t").steps()) == [3, 999]


def test_patience_ends(make_writer, said):
    writer, gate = make_writer(limit_bytes=1, patience_seconds=0.01), Gate()
    writer.write(gate, size_bytes=1)
    gate.wait()
    assert not writer.write(make_step(1))
    gate.open()
    assert len(said) == 1


def test_a_step_larger_than_the_limit_is_taken_alone(make_writer, said):
    writer = make_writer(limit_bytes=10)
    for step in range(3):
        assert writer.write(make_step(step, size=100_000))
    assert writer.close().written == 3


def test_a_folder_that_cannot_be_written_is_reported_once(tmp_path, make_writer, said):
    (tmp_path / "t").write_text("a file, not a folder")
    writer, done = make_writer(), []
    for step in range(5):
        writer.write(make_step(step), on_done=lambda: done.append(1))
    assert writer.flush()
    assert len(done) == 5
    assert len(said) == 1
    assert f"cannot be saved in {tmp_path}/t: Not a directory" in said[0]
    (tmp_path / "t").unlink()  # and when the trouble is over, it goes on
    writer.write(make_step(7))
    tally = writer.close()
    assert (tally.written, tally.failed) == (1, 5)
    assert "5 because of errors" in said[1]
    assert list(SavedTensors(tmp_path / "t").steps()) == [7]


def test_what_goes_wrong_while_a_step_is_made_is_reported_too(make_writer, said):
    writer = make_writer()
    writer.write(lambda: 1 / 0)
    writer.write(make_step(1), on_done=lambda: 1 / 0)
    assert writer.close().written == 1
    assert "ZeroDivisionError" in said[0]
    assert "after saving tensors: ZeroDivisionError" in said[1]


@pytest.mark.parametrize("direct_bytes", [0, 1 << 60], ids=["direct", "plain"])
def test_a_full_disk_leaves_whole_steps_only(
    tmp_path, make_writer, said, monkeypatch, direct_bytes
):
    monkeypatch.setattr(step_file, "DIRECT_BYTES", direct_bytes)
    writer = make_writer()
    writer.write(make_step(0, size=1000))
    assert writer.flush()
    before = files_of(tmp_path / "t")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        writer.write(make_step(1, size=3 << 20))
        assert writer.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert files_of(tmp_path / "t") == before
    assert said == [f"tensors cannot be saved in {tmp_path}/t: File too large"]
    assert not (tmp_path / "t/events/000000000001").exists()
    writer.write(make_step(2, size=3 << 20))
    assert writer.close().written == 2
    assert list(SavedTensors(tmp_path / "t").steps()) == [0, 2]


def test_tensors_whose_index_cannot_be_written_are_removed(tmp_path):
    (tmp_path / "index").write_text("a file, not a folder")
    with pytest.raises(NotADirectoryError):
        write_step(str(tmp_path), WORKER, make_step(0))
    assert list(files_of(tmp_path)) == ["index"]


def test_a_step_that_is_written_again_is_never_shown_half_old_half_new(tmp_path, monkeypatch):
    write_step(str(tmp_path), WORKER, make_step(0))

    def be_killed(path, content):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(step_file, "write_whole", be_killed)
        with pytest.raises(KeyboardInterrupt):
            write_step(str(tmp_path), WORKER, make_step(0, tensors={"y": np.ones(100)}))
    assert list(SavedTensors(tmp_path).steps()) == []
    write_step(str(tmp_path), WORKER, make_step(0, tensors={"y": np.ones(100)}))
    step = SavedTensors(tmp_path).at(0)
    assert step.names == ("y",)
    assert step.find("y").value().sum() == 100


def test_a_step_that_cannot_be_written_again_stays_as_it_was(tmp_path):
    write_step(str(tmp_path), WORKER, make_step(0))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_step(str(tmp_path), WORKER, make_step(0, size=3 << 20))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert SavedTensors(tmp_path).at(0).find("x").value().size == 10


def test_of_a_complex_tensor_that_is_too_large_magnitudes_are_saved(tmp_path, monkeypatch):
    monkeypatch.setattr(step_file, "MOST_BYTES", 10)
    result = write_step(str(tmp_path), WORKER, make_step(0, tensors={"z": np.ones(9, "c8")}))
    assert list(result.left_out) == ["z"]
    assert SavedTensors(tmp_path).at(0).find("z").saved_reductions == ("abs_mean", "l2_norm")


def test_a_report_that_fails_does_no_harm(tmp_path):
    (tmp_path / "t").write_text("")
    writer = BackgroundWriter(str(tmp_path / "t"), WORKER, report=lambda text: 1 / 0)
    writer.write(make_step(0))
    assert writer.close().failed == 1


def test_closing_is_bounded(make_writer, said):
    writer, gate, done = make_writer(), Gate(), []
    writer.write(gate)
    writer.write(make_step(1), on_done=lambda: done.append(1))
    gate.wait()
    assert writer.close(timeout_seconds=0).dropped == 1
    assert done == [1]
    assert not writer.write(make_step(2), on_done=lambda: done.append(2))
    assert done == [1, 2]
    gate.open()
    writer._thread.join(DEADLINE_SECONDS)


def test_a_tensor_of_2_gib_is_replaced_by_its_numbers_and_that_is_said(
    tmp_path, make_writer, said, monkeypatch
):
    huge = np.broadcast_to(np.float32(3), 1 << 29)  # takes no memory
    tensors = {"huge": huge, "small": np.ones(1), "odd": np.zeros(1, "M8[s]")}
    writer = make_writer()
    for step in range(2):
        monkeypatch.setattr(step_file, "INSTEAD", ("max",) if step else ("abs_mean",))
        writer.write(make_step(step, tensors=tensors), size_bytes=1)
        assert writer.flush()
    writer.close()
    assert len(said) == 2
    assert "huge is not saved: it has 2.0 GiB" in said[0]
    assert "odd is not saved: smdebug's format has no datetime64[s]" in said[1]
    saved = SavedTensors(tmp_path / "t")
    tensor = saved.at(0).find("huge")
    assert (tensor.shape, tensor.reduction("abs_mean")) == ((1 << 29,), 3.0)
    assert saved.at(1).find("huge").reduction("max") == 3.0
    assert saved.at(1).find("small").value() == 1


def test_thousands_of_tensors_in_a_step(tmp_path, monkeypatch):
    monkeypatch.setenv("SMDEBUG_TRAINING_END_DELAY_REFRESH", "0")
    count = 2000
    tensors = {f"layer.{i}.weight": np.full((2, 2), i, np.float32) for i in range(count)}
    reductions = {f"gradient/layer.{i}.weight": {"abs_mean": i} for i in range(count)}
    write_step(str(tmp_path), WORKER, make_step(0, tensors=tensors, reductions=reductions))
    write_collections(str(tmp_path), WORKER, [])
    mark_end(str(tmp_path), is_job=False)
    step = SavedTensors(tmp_path).at(0)
    assert [t.value()[0, 0] for t in step.needed("weights")] == sorted(range(count), key=str)
    assert sum(t.reduction("abs_mean") for t in step.needed("gradients")) == sum(range(count))
    trial = create_trial(str(tmp_path))
    assert tuple(trial.tensor_names()) == step.names
    assert trial.tensor("layer.1999.weight").value(0)[1, 1] == 1999


def test_the_end_is_marked_outside_of_jobs_only(tmp_path):
    mark_end(str(tmp_path), is_job=True)
    assert not SavedTensors(tmp_path).has_ended
    mark_end(str(tmp_path), is_job=False)
    assert SavedTensors(tmp_path).has_ended
    assert (tmp_path / "training_job_end.ts").read_bytes() == b""


def run_script(folder: Path, body: str, *, expected: int = 0) -> str:
    head = """
        import os, signal, sys, threading, time
        import numpy as np
        from stoker.debugging.tensors import BackgroundWriter, SavedStep, step_file
        folder = sys.argv[1]
        def step(number, size=1000):
            tensors = {name: np.full(size, number, np.float32) for name in "abc"}
            return SavedStep(step=number, mode="TRAIN", mode_step=number, tensors=tensors)
        def say(text):
            print(text, flush=True)
    """
    script = textwrap.dedent(head) + textwrap.dedent(body)
    process = subprocess.run(
        [sys.executable, "-c", script, str(folder)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert process.returncode == expected, process.stderr
    assert expected or process.stderr == ""
    return process.stdout


def test_what_is_queued_is_written_when_the_interpreter_ends(tmp_path):
    run_script(
        tmp_path / "t",
        """
        writer = BackgroundWriter(folder, "worker_0")
        for number in range(30):
            writer.write(step(number, 100_000))
        sys.exit(0)
        """,
    )
    assert len(SavedTensors(tmp_path / "t").steps()) == 30


def test_a_signal_handler_may_close_in_the_middle_of_anything(tmp_path):
    said = run_script(
        tmp_path / "t",
        """
        writer = BackgroundWriter(folder, "worker_0", limit_bytes=100_000)
        def stop(number, frame):
            say(writer.close().written)
            sys.exit(0)
        signal.signal(signal.SIGTERM, stop)
        stop_me = lambda: os.kill(os.getpid(), signal.SIGTERM)
        number = 0
        while True:
            writer.write(step(number), on_done=stop_me if number == 50 else None)
            number += 1
        """,
    )
    assert len(SavedTensors(tmp_path / "t").steps()) == int(said) > 50


def test_a_forked_child_leaves_the_parents_work_alone(tmp_path):
    said = run_script(
        tmp_path / "t",
        """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        writer = BackgroundWriter(folder, "worker_0", limit_bytes=1 << 30)
        for number in range(20):
            writer.write(step(number, 300_000))
        child = os.fork()
        if child == 0:
            say(writer.write(step(77)))
            say(writer.close().written)
            own = BackgroundWriter(folder + "/child", "worker_0")
            own.write(step(5))
            sys.exit(0)  # runs the exit functions, as a worker of a loader would not
        assert os.waitpid(child, 0)[1] == 0
        say(writer.close().written)
        """,
    )
    assert said.split() == ["False", "0", "20"]
    assert list(SavedTensors(tmp_path / "t").steps()) == list(range(20))
    assert list(SavedTensors(tmp_path / "t/child").steps()) == [5]


def test_kill_9_at_any_moment_leaves_complete_steps_only(tmp_path, monkeypatch):
    """Forty processes, each killed somewhere in its writing; half of them write directly."""
    kills = 40
    run_script(
        tmp_path,
        f"""
        import random, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        random.seed(0)
        for kill in range({kills}):
            place = f"{{folder}}/{{kill}}"
            step_file.DIRECT_BYTES = 0 if kill % 2 else 1 << 60
            child = os.fork()
            if child == 0:
                writer = BackgroundWriter(place, "worker_0", limit_bytes=10 << 20)
                number = 0
                while True:
                    writer.write(step(number, random.choice((10, 200_000))))
                    number += 1
            while not os.path.exists(place + "/events"):
                time.sleep(0.001)
            time.sleep(random.random() * 0.03)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        """,
    )
    monkeypatch.setenv("SMDEBUG_TRAINING_END_DELAY_REFRESH", "0")
    halves = 0
    for kill in range(kills):
        folder = tmp_path / str(kill)
        saved = SavedTensors(folder)
        steps = list(saved.steps())
        assert steps == list(range(len(steps)))
        assert not saved.damaged
        for step in steps:
            for name in "abc":
                assert (saved.at(step).find(name).value() == step).all()
        halves += len(list(folder.rglob("*.sagemaker-ignore")))
        if steps and kill < 4:
            write_collections(str(folder), WORKER, [])
            mark_end(str(folder), is_job=False)
            trial = create_trial(str(folder))
            assert trial.steps() == steps
            assert (trial.tensor("c").value(steps[-1]) == steps[-1]).all()
    assert halves, "no process was killed in the middle of a file"

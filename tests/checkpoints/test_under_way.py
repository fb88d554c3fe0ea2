"""What a script may do, and what may happen to it, while a save is under way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from safetensors.torch import load_file

import stoker
from stoker.checkpoints.store import Store

FORKING = """
import os, sys, threading
import torch, stoker
from stoker.checkpoints.snapshot import Snapshot

may_copy, copy = threading.Event(), Snapshot.copy_late


def copy_late(*args):
    assert may_copy.wait(timeout=240)
    copy(*args)


Snapshot.copy_late = copy_late
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.AdamW(model.parameters())
with stoker.checkpoints(stoker.job(root=sys.argv[1]), model=model, optimizer=optimizer) as ckpt:
    model(torch.ones(4)).sum().backward()
    optimizer.step()
    ckpt.advance()
    ckpt.save()
    child = os.fork()
    if child == 0:
        optimizer.step()
        try:
            ckpt.save()
        except stoker.StokerError as error:
            print(error, flush=True)
        sys.exit(7)
    print("child:", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    may_copy.set()
    optimizer.step()
"""


class Interrupted(Exception):
    """Raised by a signal handler of a script, as Ctrl-C and time limits do."""


@pytest.fixture
def job(tmp_path):
    return stoker.job(root=tmp_path, environ={})


@pytest.fixture
def _interrupts():
    def interrupt(*_):
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def flush_interrupted(ckpt):
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    ckpt.flush()


@pytest.mark.usefixtures("_interrupts")
def test_who_is_interrupted_while_waiting_finds_the_save_still_under_way(job, monkeypatch):
    write, is_disk_there = os.pwrite, threading.Event()

    def pwrite(*args):
        assert is_disk_there.wait(timeout=240)
        return write(*args)

    monkeypatch.setattr(os, "pwrite", pwrite)
    state = {"x": torch.zeros(100_000)}
    with stoker.checkpoints(job, state=state) as ckpt:
        ckpt.advance()
        ckpt.save()
        with pytest.raises(Interrupted):
            flush_interrupted(ckpt)
        state["x"] += 1
        ckpt.advance()
        # The second save must not touch the memory of the first one, which is not written yet.
        threading.Timer(0.3, is_disk_there.set).start()
        ckpt.save()
    first, second = Store(job.checkpoint_dir).read_all()
    for checkpoint, value in ((first, 0), (second, 1)):
        assert Store(job.checkpoint_dir).verify(checkpoint) == ""
        tensors = load_file(f"{checkpoint.path}/rank00000.safetensors")
        assert (tensors["state.x"] == value).all()


def test_a_save_that_could_not_be_begun_holds_no_optimizer_back(job, monkeypatch):
    """As where no thread can be had; here the kernel's answer is played."""
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters())
    submit = ThreadPoolExecutor.submit

    def refuse(*_, **__):
        raise RuntimeError("can't start new thread")

    with stoker.checkpoints(job, model=model, optimizer=optimizer) as ckpt:
        model(torch.ones(4)).sum().backward()
        optimizer.step()
        ckpt.advance()
        monkeypatch.setattr(ThreadPoolExecutor, "submit", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            ckpt.save()
        monkeypatch.setattr(ThreadPoolExecutor, "submit", submit)
        stepping = threading.Thread(target=optimizer.step, daemon=True)
        stepping.start()
        stepping.join(timeout=240)
        assert not stepping.is_alive()
    assert Store(job.checkpoint_dir).newest().step == 1


def test_a_forked_child_waits_for_nothing_and_leaves_the_save_alone(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-c", FORKING, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "a forked process cannot save through the session of its parent" in ended.stdout
    assert ended.stdout.endswith("child: 7\n")
    assert Store(tmp_path / "checkpoints").newest().step == 1

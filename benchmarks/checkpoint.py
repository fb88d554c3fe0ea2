"""Checkpoints of 1 GiB of model and AdamW state, compared with torch's own ways to save.

Usage: python benchmarks/checkpoint.py [--rounds 12] [--mebibytes 1024] [--threads N] [--json]

What a checkpoint costs a training loop is its call and what the steps that begin before it is
durable take longer than the same loop's steps before it began and after it was durable. Single
steps differ by more than that, so it is the median over rounds that counts, step by step, and a
turn during which other processes had the cores is taken again; the note says how many could not be
had undisturbed. Every method writes to the same disk. The machine's limits are in the same
table: copying the bytes in memory and writing them past the page cache into a new file, and what
the loop loses when only that runs at the same time; "nothing" is the same measurement without a
checkpoint: what it cannot tell apart.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import mmap
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from torch import nn

import stoker
from figures import Figure, run, say
from stoker.checkpoints.store import Store

LOST_GOAL, LOST_ASYNC_GOAL, DURABLE_GOAL, RESTORE_GOAL, MEMORY_GOAL = 0.05, 0.25, 1.5, 0.4, 1.02
_STEPS_WITHOUT = 2  # before the checkpoint, and again when it is durable
_MOST_STEPS_DURING = 8
_TRIES = 3
# Of one core: what else runs on a machine that is called quiet stays below it.
_OTHERS_SHARE = 0.05
# One core is left to the writer, as on an instance whose training runs on its GPUs.
_THREADS = max(1, (os.cpu_count() or 2) - 1)
_PIECE_BYTES = 16 * 2**20
_IN_FLIGHT = 4


class Training:
    """A loop whose steps take long enough, as real ones do, and its state of a given size."""

    def __init__(self, size_bytes: int) -> None:
        torch.manual_seed(0)
        width = 1024
        blocks = max(1, round(size_bytes / 3 / 4 / (width * (width + 1))))
        self.model = nn.Sequential(*(nn.Linear(width, width) for _ in range(blocks)))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-5, fused=True)
        self.inputs = torch.randn(64, width)
        self.step()
        self.size_bytes = sum(t.numel() * t.element_size() for t in self.tensors())

    def tensors(self) -> list[torch.Tensor]:
        states = [v for state in self.optimizer.state.values() for v in state.values()]
        return [*self.model.parameters(), *states]

    def step(self) -> None:
        loss = self.model(self.inputs).square().mean()
        self.optimizer.zero_grad(set_to_none=False)
        loss.backward()
        self.optimizer.step()

    def state(self) -> dict[str, object]:
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}


@dataclass(frozen=True, slots=True)
class Turn:
    """One checkpoint in the middle of a loop, in milliseconds."""

    call: float
    during: list[float]
    """The steps that began after the call, and before everything was on the disk."""
    without: list[float]
    """The steps before it, and after everything was on the disk."""
    is_disturbed: bool

    def excess(self) -> list[float]:
        """What the call took, and each step during it more than a step without."""
        usual = statistics.median(self.without)
        return [self.call, *(step - usual for step in self.during)]

    def __str__(self) -> str:
        steps = " ".join(f"{ms:+.0f}" for ms in self.excess())
        return f"{steps} ms{' (disturbed by others)' * self.is_disturbed}"


class Lost:
    """What a loop loses by one checkpoint, from many turns."""

    def __init__(self, turns: list[Turn]) -> None:
        rounds = [turn.excess() for turn in turns]
        # A median for each step, as a single slow step would make its whole round useless. What
        # hits no step in particular is noise, and has a median of nothing.
        by_step = itertools.zip_longest(*rounds, fillvalue=0.0)
        self.ms = sum(statistics.median(steps) for steps in by_step)
        totals = sorted(map(sum, rounds))
        middle = f"{totals[len(totals) // 4]:.0f} to {totals[-1 - len(totals) // 4]:.0f} ms"
        disturbed = sum(turn.is_disturbed for turn in turns)
        self.note = (
            f"{len(turns)} rounds, the middle half lost {middle} each; "
            f"others had the cores during {disturbed} of them"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description="What a checkpoint costs.")
    parser.add_argument("--rounds", type=int, default=12, help="turns that each one takes")
    parser.add_argument("--mebibytes", type=int, default=1024, help="size of the state")
    parser.add_argument("--threads", type=int, default=_THREADS, help="of the loop")
    parser.add_argument("--folder", type=Path, help="on the disk to measure")
    return run(measure, parser, peer="peer")


def measure(args: argparse.Namespace) -> list[Figure]:
    """All figures, from one training that every method interrupts in turn."""
    torch.set_num_threads(args.threads)
    warnings.filterwarnings("ignore", category=UserWarning)  # async_save wants a GPU
    say(f"a state of {args.mebibytes} MiB …")
    training = Training(args.mebibytes * 2**20)
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        bench = Bench(training, Path(folder))
        with bench.session:
            return bench.figures(args.rounds)


class Bench:
    """Ours, the peers and the limits over one folder."""

    def __init__(self, training: Training, folder: Path) -> None:
        self.training = training
        self.folder = folder
        self._async: Future[object] | None = None
        self._thread: threading.Thread | None = None
        # Made once: what a copy costs is asked, not what fresh pages do.
        self._source = torch.ones(training.size_bytes, dtype=torch.uint8)
        self._target = torch.ones_like(self._source)
        job = stoker.job(root=folder / "ml")
        self._checkpoints = job.checkpoint_dir
        self._awaited = 0
        self.session = stoker.checkpoints(
            job, keep=1, model=training.model, optimizer=training.optimizer
        )
        self.session.save_every(steps=10**9)

    def figures(self, rounds: int) -> list[Figure]:
        memory_bytes = self._extra_memory_bytes()
        lost = self._lost_by_the_loop(rounds)
        limits = {"memcpy": self._memcpy_ms(), "disk": self._direct_write_ms()}
        during = {f"lost with {name}": lost[name].ms for name in (*limits, "nothing")}
        durable, raw = self._durable(rounds)
        restored, loaded = self._restore(rounds)
        mebibytes = (memory_bytes / 2**20, self.training.size_bytes / 2**20)
        ours, saved, dcp_saved = lost["ours"], lost["torch.save"], lost["async_save"]
        rows = [
            ("time lost / torch.save + fsync", ours.ms, saved.ms, LOST_GOAL, ours.note),
            ("time lost / DCP async_save", ours.ms, dcp_saved.ms, LOST_ASYNC_GOAL, ""),
            ("time to durable / raw direct write", durable, raw, DURABLE_GOAL, ""),
            ("restore / torch.load", restored, loaded, RESTORE_GOAL, ""),
        ]
        others = limits | during
        figures = [
            Figure(name=name, ours=own, peer=peer, unit="ms", goal=goal, others=others, note=note)
            for name, own, peer, goal, note in rows
        ]
        memory = Figure(
            name="extra memory / state",
            ours=mebibytes[0],
            peer=mebibytes[1],
            unit="MiB",
            goal=MEMORY_GOAL,
        )
        return [*figures, memory]

    # -- time lost by the loop -----------------------------------------------------------------

    def _lost_by_the_loop(self, rounds: int) -> dict[str, Lost]:
        methods: dict[str, Callable[[], object]] = {
            "ours": self._save,
            "torch.save": self._torch_save,
            "async_save": self._async_save,
            "memcpy": lambda: self._during(self._memcpy_ms),
            "disk": lambda: self._during(self._direct_write_ms),
            "nothing": lambda: None,
        }
        turns: dict[str, list[Turn]] = {name: [] for name in methods}
        for number in range(rounds + 1):
            for name, save in methods.items():
                turn = self._quiet_turn(save)
                turns[name].append(turn)
                say(f"round {number}: {name} {turn}")
        return {name: Lost(taken[1:]) for name, taken in turns.items()}

    def _quiet_turn(self, save: Callable[[], object]) -> Turn:
        """A turn without other load, if possible."""
        for _ in range(_TRIES):
            _wait_for_quiet()
            turn = self._turn(save)
            if not turn.is_disturbed:
                break
        return turn

    def _turn(self, save: Callable[[], object]) -> Turn:
        started, others = time.perf_counter(), _others_seconds()
        without = self._steps_ms(_STEPS_WITHOUT)
        free = Store(self._checkpoints).next_serial()
        self._awaited = free if save == self._save else free - 1
        call = _timed_ms(save)
        during = self._steps_ms(1)
        while not self._is_settled() and len(during) < _MOST_STEPS_DURING:
            during += self._steps_ms(1)
        self._settle()
        without += self._steps_ms(_STEPS_WITHOUT)
        share = (_others_seconds() - others) / (time.perf_counter() - started)
        return Turn(call, during, without, is_disturbed=share > _OTHERS_SHARE)

    def _steps_ms(self, count: int) -> list[float]:
        return [_timed_ms(self.training.step) for _ in range(count)]

    def _during(self, function: Callable[[], object]) -> None:
        self._thread = threading.Thread(target=function)
        self._thread.start()

    def _save(self) -> None:
        self.session.advance()
        self.session.save()

    def _save_and_flush(self) -> None:
        self._save()
        self.session.flush()

    def _torch_save(self) -> None:
        with open(self.folder / "torch.pt", "wb") as file:
            torch.save(self.training.state(), file)
            file.flush()
            os.fsync(file.fileno())

    def _async_save(self) -> None:
        target = self.folder / "dcp"
        shutil.rmtree(target, ignore_errors=True)
        self._async = dcp.async_save(self.training.state(), checkpoint_id=target, no_dist=True)

    def _is_settled(self) -> bool:
        """Whether everything that was begun is on the disk."""
        is_saved = Store(self._checkpoints).next_serial() > self._awaited
        is_stored = self._async is None or self._async.done()
        return is_saved and is_stored and not (self._thread and self._thread.is_alive())

    def _settle(self) -> None:
        """Between turns nothing of the one before is under way any more."""
        self.session.flush()
        if self._async is not None:
            self._async.result()
            self._async = None
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        os.sync()

    # -- durable, restore, memory --------------------------------------------------------------

    def _durable(self, rounds: int) -> tuple[float, float]:
        """Milliseconds until ours is on the disk, and the same bytes by the quickest way."""
        ours, raw = [], []
        for _ in range(rounds + 1):
            self._settle()
            ours.append(_timed_ms(self._save_and_flush))
            raw.append(self._direct_write_ms())
        return statistics.median(ours[1:]), statistics.median(raw[1:])

    def _restore(self, rounds: int) -> tuple[float, float]:
        """Milliseconds from a file to a model and an optimizer that continue, both fresh."""
        ours, peer = [], []
        self._torch_save()
        self._save()
        self._settle()
        for _ in range(rounds + 1):
            fresh = _fresh_like(self.training)
            ours.append(_timed_ms(lambda: self._restore_ours(fresh)))  # noqa: B023 - called here
            fresh = _fresh_like(self.training)
            peer.append(_timed_ms(lambda: self._restore_torch(fresh)))  # noqa: B023 - as above
        return statistics.median(ours[1:]), statistics.median(peer[1:])

    def _restore_ours(self, fresh: Training) -> None:
        job = stoker.job(root=self.folder / "ml")
        with stoker.checkpoints(job, model=fresh.model, optimizer=fresh.optimizer):
            pass

    def _restore_torch(self, fresh: Training) -> None:
        state = torch.load(self.folder / "torch.pt", weights_only=True)
        fresh.model.load_state_dict(state["model"])
        fresh.optimizer.load_state_dict(state["optimizer"])

    def _extra_memory_bytes(self) -> float:
        """What the process has more after a first save than before."""
        before = _resident_bytes()
        self._save_and_flush()
        return _resident_bytes() - before

    def _memcpy_ms(self) -> float:
        addresses = self._target.data_ptr(), self._source.data_ptr()
        return _timed_ms(lambda: ctypes.memmove(*addresses, self.training.size_bytes))

    def _direct_write_ms(self) -> float:
        size_bytes = self.training.size_bytes // _PIECE_BYTES * _PIECE_BYTES
        with mmap.mmap(-1, _PIECE_BYTES) as piece:
            piece[:] = os.urandom(_PIECE_BYTES)
            return _timed_ms(lambda: _write_direct(self.folder / "raw", piece, size_bytes))


def _wait_for_quiet() -> None:
    """Returns when no other process has the cores, or after two seconds."""
    for _ in range(4):
        before = _others_seconds()
        time.sleep(0.5)
        if _others_seconds() - before <= 0.5 * _OTHERS_SHARE:
            return


def _others_seconds() -> float:
    """Processor time of all other processes so far, and of other machines on this host.

    The kernel's is left out: much of it is our own writing.
    """
    user, nice, *_, steal = Path("/proc/stat").read_text().split(maxsplit=9)[1:9]
    ticks = int(user) + int(nice) + int(steal)
    return ticks / os.sysconf("SC_CLK_TCK") - os.times().user


def _write_direct(path: Path, piece: mmap.mmap, size_bytes: int) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_DIRECT)
    try:
        with ThreadPoolExecutor(_IN_FLIGHT) as pool:
            starts = range(0, size_bytes, _PIECE_BYTES)
            list(pool.map(lambda start: os.pwrite(handle, piece, start), starts))
        os.fsync(handle)
    finally:
        os.close(handle)


def _fresh_like(training: Training) -> Training:
    fresh = Training.__new__(Training)
    fresh.model = nn.Sequential(*(nn.Linear(1024, 1024) for _ in training.model))
    fresh.optimizer = torch.optim.AdamW(fresh.model.parameters(), lr=1e-5, fused=True)
    return fresh


def _timed_ms(function: Callable[[], object]) -> float:
    started = time.perf_counter()
    function()
    return 1000 * (time.perf_counter() - started)


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    sys.exit(main())

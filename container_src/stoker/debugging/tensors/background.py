"""Writing during the training: one thread, and a bounded queue before it."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from stoker.contract.process_end import Stage, at_end
from stoker.debugging.tensors.step_file import SavedStep, write_step

_LOG = logging.getLogger("stoker.debugging")
END_SECONDS = 60.0
"""What may be waited for at the end."""

MakeStep = Callable[[], SavedStep]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tally:
    """What became of everything that was handed over."""

    written: int
    dropped: int
    """Steps that were dropped: the disk was slower than the training."""
    failed: int
    size_bytes: int


class _Job(NamedTuple):
    work: Callable[[], None]
    size_bytes: int
    on_done: Callable[[], None] | None
    is_step: bool


class BackgroundWriter:
    """Takes steps and writes them in the order they came. Never raises into the training.

    Example:
        >>> writer = BackgroundWriter("/opt/ml/output/tensors", "worker_0")
        >>> writer.write(SavedStep(step=0, mode="TRAIN", mode_step=0, tensors={"loss": loss}))
        >>> writer.close()
    """

    def __init__(
        self,
        folder: str,
        worker: str,
        *,
        limit_bytes: int = 1 << 30,
        when_full: Literal["wait", "drop"] = "wait",
        patience_seconds: float = 60.0,
        report: Callable[[str], None] = _LOG.warning,
    ) -> None:
        """
        Args:
            folder: of the saved tensors.
            worker: whose they are.
            limit_bytes: of the steps that wait to be written. One that is larger alone is taken
                when no other waits.
            when_full: whether `write` waits for room, or the new step is dropped as a whole.
            patience_seconds: how long it waits, before it drops the step after all: a disk that
                hangs must not hang the training.
            report: told of the first failure, the first drop, and the sums at the end. Called by
                the thread, too.
        """
        self.folder, self.worker = folder, worker
        self._limit_bytes = limit_bytes
        self._patience_seconds = patience_seconds if when_full == "wait" else 0.0
        self._report = report
        self._said: set[str] = set()
        self._is_ours = True
        self.has_failed = False
        """Something could not be written: the disk is full, the folder is gone, …"""
        self._reset()
        at_end(self.close, forget=self._forget, stage=Stage.WRITER)

    def _reset(self) -> None:
        # A Condition's lock may be taken again by the thread that has it: a signal handler may
        # call `close` in the middle of `write`.
        self._changed = threading.Condition()
        self._jobs: deque[_Job] = deque()
        self._queued_bytes = 0
        self._is_busy = False
        self._is_closed = self._is_ending = False
        self._thread: threading.Thread | None = None
        self._written = self._dropped = self._failed = self._size_bytes = 0

    @property
    def tally(self) -> Tally:
        """What became of the steps so far."""
        return Tally(
            written=self._written,
            dropped=self._dropped,
            failed=self._failed,
            size_bytes=self._size_bytes,
        )

    def write(
        self,
        step: SavedStep | MakeStep,
        *,
        size_bytes: int | None = None,
        on_done: Callable[[], None] | None = None,
    ) -> bool:
        """Hands over a step and returns at once, unless the queue is full.

        Args:
            step: it, or what makes it; that is called by the thread.
            size_bytes: memory that it holds until it is written, where the step cannot tell.
            on_done: called when its arrays are not needed any more, whatever became of it; by the
                thread, or by this one where it was dropped.

        Returns:
            False if it was dropped.
        """
        if size_bytes is None:
            size_bytes = step.size_bytes if isinstance(step, SavedStep) else 0
        job = _Job(lambda: self._write_step(step), size_bytes, on_done, True)
        is_taken = self._add(job)
        if not is_taken:
            self._end(job)
        return is_taken

    def run(self, work: Callable[[], None]) -> None:
        """Has the thread do something small after all that was handed over, such as collections.

        An OSError of it is reported, as those of steps are.
        """
        self._add(_Job(work, 0, None, False))

    def end(self, last: Callable[[], None]) -> None:
        """Takes nothing more than this, which comes after all that is queued. Does not wait.

        An OSError of it is reported, as those of steps are.
        """
        self.run(last)
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()

    def flush(self, timeout_seconds: float = END_SECONDS) -> bool:
        """Waits until all that was handed over is written; False if that takes too long."""
        deadline = time.monotonic() + timeout_seconds
        with self._changed:
            while self._jobs or self._is_busy:
                left_seconds = deadline - time.monotonic()
                if left_seconds <= 0 or not self._is_alive():
                    return False
                self._changed.wait(left_seconds)
        return True

    def close(self, timeout_seconds: float = END_SECONDS) -> Tally:
        """Finishes what is queued, within a bound, and says what was lost if anything was."""
        if self._is_closed or not self._is_ours:
            return self.tally
        is_all = self.flush(timeout_seconds)
        with self._changed:
            self._is_closed = True
            # What is not written by now is lost with the process: it is counted, and its memory
            # given back.
            left, self._jobs = self._jobs, deque()
            self._dropped += sum(job.is_step for job in left)
            self._changed.notify_all()
        for job in left:
            self._end(job)
        # Not a thread that hangs in a write: it would hold the end of the process.
        if is_all and self._thread is not None:
            self._thread.join(timeout_seconds)
        if self._dropped or self._failed:
            self._say_sums()
        return self.tally

    def _add(self, job: _Job) -> bool:
        if self._is_closed or self._is_ending or not self._is_ours:
            return False
        with self._changed:
            if not self._has_room(job.size_bytes) and not self._wait_for_room(job.size_bytes):
                self._dropped += job.is_step
                return False
            self._queued_bytes += job.size_bytes
            self._jobs.append(job)
            has_thread = self._thread is not None or self._start()
            self._changed.notify_all()
        if not has_thread:
            self._do_here()
        return True

    def _has_room(self, size_bytes: int) -> bool:
        return not self._queued_bytes or self._queued_bytes + size_bytes <= self._limit_bytes

    def _wait_for_room(self, size_bytes: int) -> bool:
        has_room = self._changed.wait_for(
            lambda: self._has_room(size_bytes) or self._is_closed, self._patience_seconds
        )
        if not has_room:
            self._say_once(
                "drop",
                f"tensors come faster than {self.folder} takes them: whole steps are left out;"
                " save less often, fewer tensors, or their reductions",
            )
        return has_room and not self._is_closed

    def _start(self) -> bool:
        # A daemon: threading would otherwise wait for it before it runs our exit function.
        thread = threading.Thread(target=self._loop, name="stoker-tensors", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the interpreter is ending, or the system has no more threads
            return False
        self._thread = thread
        return True

    def _do_here(self) -> None:
        """The work of the thread, where there can be none. A short run ends before its first."""
        while self._jobs:
            job = self._jobs.popleft()
            self._do(job)
            self._queued_bytes -= job.size_bytes

    def _is_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _loop(self) -> None:
        while True:
            with self._changed:
                while not self._jobs:
                    if self._is_closed or self._is_ending:
                        return
                    self._changed.wait()
                job = self._jobs.popleft()
                self._is_busy = True
            self._do(job)
            size_bytes = job.size_bytes
            del job  # its arrays go before the next one comes
            with self._changed:
                self._is_busy = False
                self._queued_bytes -= size_bytes
                self._changed.notify_all()

    def _do(self, job: _Job) -> None:
        try:
            job.work()
        except Exception as error:  # saved tensors are never worth a training
            self.has_failed = True
            self._failed += job.is_step
            self._say_once("fail", f"tensors cannot be saved in {self.folder}: {_in_words(error)}")
        self._end(job)

    def _end(self, job: _Job) -> None:
        if job.on_done is not None:
            try:
                job.on_done()
            except Exception as error:
                self._say_once("done", f"after saving tensors: {_in_words(error)}")

    def _write_step(self, step: SavedStep | MakeStep) -> None:
        made = step if isinstance(step, SavedStep) else step()
        result = write_step(self.folder, self.worker, made)
        self._written += 1
        self._size_bytes += result.size_bytes
        for name, why in result.left_out.items():
            self._say_once(name, f"tensor {name} is not saved: {why}")

    def _say_once(self, topic: str, text: str) -> None:
        if topic not in self._said:
            self._said.add(topic)
            self._say(text)

    def _say_sums(self) -> None:
        self._say(
            f"saved tensors of {self._written} steps; {self._dropped} were left out because the"
            f" disk was too slow, {self._failed} because of errors"
        )

    def _say(self, text: str) -> None:
        try:
            self._report(text)
        except Exception as error:
            _LOG.warning("%s (and it could not be reported: %s)", text, error)

    def _forget(self) -> None:
        """In a forked child: the queue and the files are the parent's."""
        self._is_ours = False
        self._reset()


def _in_words(error: BaseException) -> str:
    return (isinstance(error, OSError) and error.strerror) or f"{type(error).__name__}: {error}"

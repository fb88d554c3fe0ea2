"""A training run that can be interrupted at any moment: the `ckpt` of a script."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from stoker.checkpoints.interval import MEAN_HOURS_BETWEEN_INTERRUPTIONS, Schedule
from stoker.checkpoints.log import say, warn
from stoker.checkpoints.loop import Leave, Loop
from stoker.checkpoints.manifest import Metric
from stoker.checkpoints.parts import Parts
from stoker.checkpoints.progress import Progress, is_better, make_config
from stoker.checkpoints.ranks import make_group
from stoker.checkpoints.recorder import CheckpointRecorder, Settings
from stoker.checkpoints.stopping import Stopping
from stoker.checkpoints.store import Checkpoint, Store
from stoker.contract.job import Job
from stoker.errors import CheckpointFailed

_T = TypeVar("_T")


def open_session(
    job: Job,
    *,
    folder: str | os.PathLike[str] | None = None,
    keep: int = 3,
    resume: bool = True,
    if_changed: Literal["warn", "refuse"] = "warn",
    config: Mapping[str, object] | None = None,
    overlap: bool = True,
    **parts: Any,  # noqa: ANN401 - whatever has a state
) -> Session:
    """Saves and resumes a training run; use it in a `with` statement.

    Args:
        job: from `stoker.job()`.
        folder: instead of the job's own, which is synced with S3.
        keep: how many of the newest checkpoints to keep, in addition to the best.
        resume: False starts from scratch, whatever is there.
        if_changed: what to do about a checkpoint of other hyperparameters.
        config: what makes a run this run, instead of the job's hyperparameters.
        overlap: copy parameters while the next forward and backward pass run. False copies all
            at once, for a script that changes parameters elsewhere than in optimizer.step().
        parts: model=, optimizer=, scheduler=, scaler=, loader= and anything else that has
            state_dict() and load_state_dict(), or is a dict.

    Example:
        >>> with stoker.checkpoints(job, model=model, optimizer=optimizer) as ckpt:
        ...     for epoch in ckpt.range(hp.epochs):
        ...         for step, batch in ckpt.batches(loader):
        ...             train(batch)
    """
    values = job.hyperparameters.user() if config is None else config
    settings = Settings(
        keep=keep,
        resume=resume,
        if_changed=if_changed,
        config=make_config(values),
        overlap=overlap,
    )
    stateful = Parts({name: part for name, part in parts.items() if _has_state(name, part)})
    return Session(job, stateful, Store(folder or job.checkpoint_dir), settings)


class Session:
    """One run, from its newest checkpoint to its end. Made by `stoker.checkpoints`."""

    def __init__(self, job: Job, parts: Parts, store: Store, settings: Settings) -> None:
        self.store = store
        self.progress = Progress()
        self.resumed_from: Checkpoint | None = None
        """The checkpoint this run continues; None if it began at the beginning."""
        self._job = job
        self._parts = parts
        self._settings = settings
        self._loop = Loop(self)
        self._schedule = Schedule(minutes="auto")
        self._metric: Metric | None = None
        self._is_asked = False

    @property
    def step(self) -> int:
        """Steps that are done."""
        return self.progress.step

    @property
    def epoch(self) -> int:
        """Epochs that are done."""
        return self.progress.epoch

    @property
    def stopped(self) -> bool:
        """Whether the loop was left early, for a signal or a rule."""
        return self._stopping.is_agreed

    def range(self, count: int) -> Iterator[int]:
        """The epochs that are left of `count`."""
        return self._loop.epochs(count)

    def batches(self, loader: Iterable[_T]) -> Iterator[tuple[int, _T]]:
        """The batches that are left of this epoch, each with the number of its step."""
        return self._loop.batches(loader)

    def save_every(
        self,
        *,
        steps: int | None = None,
        minutes: float | Literal["auto"] | None = None,
        mean_hours: float = MEAN_HOURS_BETWEEN_INTERRUPTIONS,
    ) -> None:
        """Says how often to save; whichever is due first. Without it: minutes="auto".

        Args:
            steps: after each so many steps.
            minutes: after so much time; "auto" weighs what a save costs against what an
                interruption loses.
            mean_hours: for "auto": the time between interruptions that is assumed.
        """
        self._schedule = Schedule(steps=steps, minutes=minutes, mean_hours=mean_hours)

    def save(self) -> None:
        """Saves at the end of this step, or of this epoch outside `batches`; else at once.

        Raises:
            CheckpointFailed: a save before this one went wrong.
        """
        if self._loop.is_running:
            self._is_asked = True
        else:
            self._save()

    def best(self, value: float, *, mode: Literal["max", "min"] = "max") -> bool:
        """Tells how good the model is now. The best one so far is saved, and kept; NaN is not.

        Returns:
            Whether it is the best so far. All ranks get the leader's answer.
        """
        value = float(self._group.share(value))
        if not is_better(value, self.progress.best, mode):
            return False
        self.progress.best = value
        self._metric = Metric(value=value, mode=mode, is_best=True)
        self.save()
        return True

    def should_stop(self) -> bool:
        """Whether a signal or a rule wants this process to stop; ranks may differ in this."""
        return self._stopping.is_requested()

    def advance(self, step: int | None = None) -> bool:
        """Counts a step that is done; for loops that are not `batches`. Saves if it is due.

        Args:
            step: its number where another counts: then so many steps are done.

        Returns:
            Whether to leave the loop now. The checkpoint is saved by then.
        """
        self.progress.step = self.progress.step + 1 if step is None else step
        return self.reach_boundary(is_due=self._schedule.is_due_at(self.progress.step))

    def flush(self) -> None:
        """Waits until what was saved is on the disk.

        Raises:
            CheckpointFailed: it went wrong.
        """
        saved = self._recorder.finish()
        told = self._schedule.learn(saved.seconds) if saved else ""
        if told and self._group.is_leader:
            say(told)

    def __enter__(self) -> Self:
        self._group = make_group(self._job)
        self._stopping = Stopping(self._job, self._group)
        with ExitStack() as undo:  # a script that continues without us must get SIGTERM again
            undo.callback(self._stopping.rest)
            self._recorder = CheckpointRecorder(
                self._job, self._parts, self.store, self._settings, self._group
            )
            undo.callback(self._recorder.close)
            self.progress.world_size = self._group.size
            resumed = self._recorder.resume(self.progress, self._loop)
            self.resumed_from = resumed.checkpoint if resumed else None
            # Entered: from here on __exit__ cleans up.
            undo.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        try:
            if kind is None:
                # Of one group: this collective must end before leave() begins the next.
                self._stopping.settle()
                if not self.stopped and not self._recorder.has(self.progress):
                    self._save()  # so that an interruption from here on repeats nothing
            self.flush()
        except CheckpointFailed as failure:
            if kind is None or kind is Leave:
                raise
            warn(failure.message)  # the script's own error matters more
        finally:
            self._recorder.close()
            if self.stopped:
                self._stopping.leave(self.step, checkpoint=self._last_step())
            self._stopping.rest()
        return kind is Leave

    def reach_boundary(self, *, is_due: bool = False) -> bool:
        """Between two steps: saves if it is due, and returns whether to leave."""
        # Raised here, in the loop: the thread has no caller.
        if self._recorder.is_failed:
            self.flush()
        is_time, is_stop = self._stopping.agree(self._schedule.is_time)
        if is_stop:
            self._save_last()
        elif is_due or is_time or self._is_asked:
            self._save()
        else:
            self._recorder.prepare(self.progress, self._loop)
        return is_stop

    def _save(self) -> None:
        self.flush()
        self._recorder.save(self.progress, self._loop, self._metric)
        self._schedule.saved()
        self._is_asked, self._metric = False, None

    def _save_last(self) -> None:
        """Before leaving: what is not saved yet, if there is time."""
        self.flush()
        last = self._recorder.last
        expected = last.seconds if last else 0.0
        if self._recorder.has(self.progress):
            return
        if self._stopping.has_time(expected):
            self._save()
            self.flush()
        elif self._group.is_leader:
            warn(f"no time to save step {self.step}: the last save took {expected:.0f} s")

    def _last_step(self) -> int:
        last = self._recorder.last or self.resumed_from
        return last.step if last else -1


def _has_state(name: str, part: object) -> bool:
    # A plain DataLoader has none: its position is what `batches` counts.
    return name != "loader" or hasattr(part, "state_dict")

"""Traces of some training steps by torch.profiler, for TensorBoard's profiler plug-in."""

from __future__ import annotations

import gc
import itertools
import logging
import os
from dataclasses import asdict
from typing import TYPE_CHECKING

import torch
from torch.autograd import profiler as torch_profiler
from torch.profiler import ProfilerAction

from stoker.contract.rank import read_rank
from stoker.profiling.trace_file import MOST_BYTES, write_trace
from stoker.profiling.window import Window, make_window

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from stoker.contract.job import Job
    from stoker.profiling.window import Place

MOST_RANKS = 8
"""The ranks that are traced: of a thousand alike, these say enough."""

_LOG = logging.getLogger(__name__)
_PROFILES = itertools.count(1)


class Traces:
    """Records the steps of a window while a script trains.

    Each trace is written where its window ends. If that fails, there is one
    warning, no more traces, and the training continues.
    """

    def __init__(
        self,
        folder: str,
        window: Window,
        *,
        worker: str,
        first_step: int = 0,
        most_bytes: int = MOST_BYTES,
        name_run: Callable[[int], str] = "step-{:06}".format,
    ) -> None:
        """
        Args:
            folder: of all traces of this profile.
            window: the steps to record.
            worker: `<host>_<rank>`.
            first_step: the number of the step that begins now.
            most_bytes: of one trace before it is packed.
            name_run: the folder of a trace, from its first step.
        """
        self.files: list[str] = []
        """What was written until now."""

        self._folder = folder
        self._window = window
        self._worker = worker
        self._most_bytes = most_bytes
        self._name_run = name_run
        self._first_step = first_step
        self._profile: torch.profiler.profile | None = None
        self._forget_others: Callable[[], None] | None = None
        self._is_ours = False
        self._is_closing = False

    def __enter__(self) -> Self:
        self._guarded(self._start)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def step(self) -> None:
        """Says that a training step has ended. Never raises."""
        if self._profile is not None:
            self._guarded(self._step, self._profile)

    def close(self) -> None:
        """Ends the profile; a window that is not over yet is written as far as it got."""
        self._is_closing = True
        self._guarded(self._stop)

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to record."""
        return self._profile is None

    def _start(self) -> None:
        profile = torch.profiler.profile(
            schedule=torch.profiler.schedule(**asdict(self._window)),
            on_trace_ready=self._write,
            record_shapes=True,
            profile_memory=True,
            with_stack=True,
        )
        profile.step_num = self._first_step  # so that the trace has the script's own numbers
        if self._is_taken(ProfilerAction.NONE, profile.current_action):
            return
        self._profile = profile
        self._forget_others = _call_before_others_record(self._give_way)
        profile.start()

    def _step(self, profile: torch.profiler.profile) -> None:
        if self._is_taken(profile.current_action, profile.schedule(profile.step_num + 1)):
            self._let_go()
            return
        profile.step()
        if profile.step_num > self._window.last_recorded:
            self._stop()

    def _stop(self) -> None:
        profile = self._let_go()
        if profile is not None:
            profile.stop()

    def _let_go(self) -> torch.profiler.profile | None:
        profile, self._profile = self._profile, None
        if self._forget_others is not None:
            self._forget_others()
            self._forget_others = None
        return profile

    def _is_taken(self, now: ProfilerAction, then: ProfilerAction) -> bool:
        if now is not ProfilerAction.NONE or then is now or not _is_recorder_taken():
            return False
        _LOG.warning("the script profiles by itself: no traces by Stoker")
        return True

    def _give_way(self) -> None:
        if not self._is_ours:
            _LOG.warning("the script profiles by itself from here on: no more traces by Stoker")
            self.close()

    def _write(self, profile: torch.profiler.profile) -> None:
        # At the end of a window torch has already moved to the next step.
        last = profile.step_num - (0 if self._is_closing else 1)
        first = max(self._window.first_recorded(last), self._first_step)
        folder = os.path.join(self._folder, self._name_run(first))
        file, with_stacks = write_trace(
            profile, folder, worker=self._worker, most_bytes=self._most_bytes
        )
        profile.profiler = None  # frees the events of this window before the next one begins
        self.files.append(file)
        if not with_stacks:
            _LOG.warning("a trace is large: written without stacks; record fewer steps for them")

    def _guarded(self, action: Callable[..., None], *arguments: object) -> None:
        was_ours, self._is_ours = self._is_ours, True
        try:
            action(*arguments)
        except Exception as error:  # a profile is never worth a training
            _LOG.warning("no more profiler traces, training continues: %s", error)
            self._abandon()
        finally:
            self._is_ours = was_ours

    def _abandon(self) -> None:
        # Not by stop(): it may start a recording, and of one that failed to get ready torch dies.
        profile = self._let_go()
        if profile is None or not torch._C._autograd._profiler_enabled():
            return
        try:
            profile.stop_trace()
        except Exception as error:
            _LOG.debug("the profiler does not end: %s", error)


def open_traces(
    job: Job, *, wait: int, warmup: int, active: int, repeat: int, to: Place = "tensorboard"
) -> Traces:
    """Traces of a script that says itself when a step ends.

    Raises:
        ValueError: there are no such numbers of steps, or no such place.
    """
    window = make_window(wait=wait, warmup=warmup, active=active, repeat=repeat)
    if window.active < active or 0 < window.repeat < repeat:
        _LOG.warning("profile: %d traces of %d steps at most", window.repeat, window.active)
    return make_traces(job, window, to=to)


def make_traces(job: Job, window: Window, *, to: Place, first_step: int = 0) -> Traces:
    """Traces in the job's folders; those of a second profile apart from the first one's."""
    places = {"tensorboard": job.services.tensorboard_dir, "output": job.paths.output_data_dir}
    if to not in places:
        raise ValueError(f"`to` must be one of {sorted(places)}, but got {to!r}")
    number = next(_PROFILES)
    folder = os.path.join(places[to], "profile" if number == 1 else f"profile-{number}")
    rank = _read_rank(job)
    if rank >= MOST_RANKS:
        return Untraced(folder, window, worker="")
    worker = f"{job.cluster.current_host}_{rank}"
    return Traces(folder, window, worker=worker, first_step=first_step)


class Untraced(Traces):
    """Traces of a rank that is not traced: none."""

    def _start(self) -> None:
        return


def _read_rank(job: Job) -> int:
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank()
    rank = read_rank(job.environ)
    return rank.number if rank is not None else 0


# torch has one recorder for all profilers of a process: two users of it crash the job.


def _is_recorder_taken() -> bool:
    """Whether a profiler records now, or warms up to it, which torch itself does not say."""
    return torch._C._autograd._profiler_enabled() or any(
        type(one) is torch_profiler.profile and _is_in_use(one) for one in gc.get_objects()
    )


def _is_in_use(one: torch_profiler.profile) -> bool:
    return getattr(one, "entered", False) and one.kineto_results is None


def _call_before_others_record(give_way: Callable[[], None]) -> Callable[[], None]:
    """Calls `give_way` before any profiler takes the recorder, ours included.

    A script's own profiler is what its author wants, and one that starts while another runs ends
    the process by a segmentation fault (torch 2.13).

    Returns:
        Ends this.
    """
    prepare = torch_profiler.profile._prepare_trace

    def give_way_first(taker: torch_profiler.profile) -> None:
        give_way()
        prepare(taker)  # type: ignore[no-untyped-call] # torch's own has no types

    def end() -> None:
        torch_profiler.profile._prepare_trace = prepare  # type: ignore[method-assign] # as below

    # There is no hook for it.
    torch_profiler.profile._prepare_trace = give_way_first  # type: ignore[method-assign] # see above
    return end

"""Other profilers in the same process. torch has one recorder: two users of it crash the job."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import torch
from torch.autograd import profiler as recorder

if TYPE_CHECKING:
    from collections.abc import Callable


def is_recorder_taken() -> bool:
    """Whether a profiler records now, or warms up to it, which torch itself does not say."""
    return torch._C._autograd._profiler_enabled() or any(
        type(one) is recorder.profile and _is_in_use(one) for one in gc.get_objects()
    )


def _is_in_use(one: recorder.profile) -> bool:
    return getattr(one, "entered", False) and one.kineto_results is None


def call_before_others_record(give_way: Callable[[], None]) -> Callable[[], None]:
    """Calls `give_way` before any profiler takes the recorder, ours included.

    A script's own profiler is what its author wants, and one that starts while another runs ends
    the process by a segmentation fault (torch 2.13).

    Returns:
        Ends this.
    """
    prepare = recorder.profile._prepare_trace

    def give_way_first(taker: recorder.profile) -> None:
        give_way()
        prepare(taker)  # type: ignore[no-untyped-call] # torch's own has no types

    def end() -> None:
        recorder.profile._prepare_trace = prepare  # type: ignore[method-assign] # as below

    # There is no hook for it.
    recorder.profile._prepare_trace = give_way_first  # type: ignore[method-assign] # see above
    return end

"""The ranks of a torchrun job as the group that saves one checkpoint together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
import torch.distributed as dist

from stoker.checkpoints.group import Group
from stoker.contract.job import Job
from stoker.errors import CheckpointFailed

_T = TypeVar("_T")


class Ranks(Group):
    """The processes of a torchrun job, over gloo, whatever carries the gradients."""

    def __init__(self, job: Job) -> None:
        self.rank = dist.get_rank()
        self.size = dist.get_world_size()
        self.local_rank = int(job.environ.get("LOCAL_RANK", self.rank))
        self.local_size = int(job.environ.get("LOCAL_WORLD_SIZE", self.size))
        # A separate group, so that our threads never mix with collectives of the script.
        self._group = dist.new_group(backend="gloo")

    def gather(self, value: _T) -> list[_T]:
        found: list[_T | None] = [None] * self.size
        dist.all_gather_object(found, value, group=self._group)
        return [item for item in found if item is not None]

    def share(self, value: _T) -> _T:
        box = [value]
        dist.broadcast_object_list(box, src=0, group=self._group)
        return box[0]

    def exchange(self, requests: int) -> Callable[[], int]:
        # One element per bit: their maximum over the ranks is what any of them requests.
        bits = torch.tensor([(requests >> i) & 1 for i in range(8)], dtype=torch.uint8)
        work = dist.all_reduce(bits, op=dist.ReduceOp.MAX, group=self._group, async_op=True)

        def result() -> int:
            if work is not None:
                work.wait()
            return sum(int(bit) << i for i, bit in enumerate(bits))

        return result


def make_group(job: Job) -> Group:
    """The group of this process. Collective: every rank makes as many as the others.

    Raises:
        CheckpointFailed: started by torchrun, but torch.distributed is not set up.
    """
    if dist.is_available() and dist.is_initialized():
        return Ranks(job) if dist.get_world_size() > 1 else Group()
    if int(job.environ.get("WORLD_SIZE") or 1) > 1:
        raise CheckpointFailed(
            f"this is rank {job.environ.get('RANK')} of {job.environ['WORLD_SIZE']}, but the "
            "ranks cannot talk to each other yet",
            fix="call torch.distributed.init_process_group() before stoker.checkpoints()",
        )
    return Group()

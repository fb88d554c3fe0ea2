"""Which of several processes this one is, and the TensorBoard run it writes."""

from __future__ import annotations

import os

from stoker.contract.rank import read_rank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.contract.job import Job


def rank_name(job: Job) -> str:
    """Empty for the one that reports; else a name of this process for files and folders.

    Launchers number their processes. Where a plain script runs on each host, the name of the
    host is used.
    """
    rank = read_rank(job.environ)
    if rank is not None:
        return "" if rank.number == 0 else f"rank-{rank.number}"
    return "" if job.is_leader else job.cluster.current_host


def run_dir(job: Job) -> str:
    """The folder of this process's event file.

    TensorBoard follows one growing file a folder, so each rank but the first has its own.
    """
    return os.path.join(job.services.tensorboard_dir, rank_name(job)).rstrip("/")


def is_resumed(job: Job) -> bool:
    """Whether an earlier attempt of this job got as far as a checkpoint."""
    # What it wrote for TensorBoard is on S3 only, but checkpoints come back to the new machine.
    try:
        names = os.listdir(job.services.checkpoint_dir)
    except OSError:
        return False
    return any(not name.startswith(".") for name in names)

"""An unchanged script's `SummaryWriter`: the job's folder by default, S3, and our event file."""

from __future__ import annotations

import functools
import os
import sys

from stoker.contract.job import read_job
from stoker.metrics.event_file import EventFile
from stoker.metrics.ranks import run_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MODULE = "torch.utils.tensorboard.writer"


def adopt() -> None:
    """Puts our event file under torch's writer, once that module is imported.

    All kinds of events go through it unchanged.
    """
    module = sys.modules[MODULE]
    # FileWriter looks this name up when a writer is made, and uses the methods EventFile has.
    module.__dict__["EventFileWriter"] = EventFile
    writer = module.SummaryWriter
    stock_init = writer.__init__

    @functools.wraps(stock_init)
    def init(
        self: object,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        *args: Any,  # noqa: ANN401 - handed on as they are
        **options: Any,  # noqa: ANN401 - handed on as they are
    ) -> None:
        stock_init(self, log_dir or default_dir(comment), comment, *args, **options)

    writer.__init__ = init


def default_dir(comment: str = "") -> str:
    """Where `SummaryWriter()` writes: the folder that is synced, a comment's runs below it."""
    return os.path.join(run_dir(read_job()), comment.strip().replace("/", "_")).rstrip("/")

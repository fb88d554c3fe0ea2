"""An unchanged script's `SummaryWriter`: the job's folder by default, S3, and our event file."""

from __future__ import annotations

import functools
import importlib.machinery
import os
from types import ModuleType

from stoker.contract.job import read_job
from stoker.metrics.event_file import EventFile
from stoker.metrics.ranks import run_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

MODULE = "torch.utils.tensorboard.writer"


def adopt(module: ModuleType) -> None:
    """Puts our event file under torch's writer. All kinds of events go through it unchanged."""
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


def find_adopted_spec(
    path: Sequence[str] | None,
) -> importlib.machinery.ModuleSpec | None:
    """The spec of torch's writer module, whose loader calls `adopt` after it."""
    spec = importlib.machinery.PathFinder.find_spec(MODULE, path)
    if spec is not None and spec.loader is not None:
        loader = spec.loader
        exec_module = loader.exec_module

        def exec_and_adopt(module: ModuleType) -> None:
            exec_module(module)
            adopt(module)

        # The loader serves this module alone, and keeps the rest of its abilities.
        loader.exec_module = exec_and_adopt  # type: ignore[method-assign] # on this object only
    return spec

"""One process to run: what the plan is made of."""

from __future__ import annotations

import os

from stoker.contract.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HELPERS = f"{os.path.dirname(os.path.abspath(__file__))}/__main__.py"
"""Started by file name, so that it also runs isolated and from a source tree."""

WORKER_VARIABLE = "STOKER_WORKER"
"""Set in the user's processes: wakes stoker.worker.autoload in each Python among them."""

PROMPT_GRACE_SECONDS = 5.0
"""A preparation step that is stopped has nothing to save."""

WORKER_GRACE_SECONDS = 112.0
"""SageMaker kills 120 s after SIGTERM; the rest is for the outcome to be written."""


class LaunchStep(Record):
    """An argv list with its environment and folder. Never a shell string."""

    name: str
    """What the log calls it, such as "install requirements"."""
    argv: tuple[str, ...]
    environ: Mapping[str, str]
    folder: str
    grace_seconds: float = PROMPT_GRACE_SECONDS
    mask: Callable[[str], str] | None = None
    """Applied to each line of output; None passes the bytes on untouched, as a user's are."""
    fix: str = ""
    """What to do when it fails."""

"""The TensorBoard run of a job's process."""

from __future__ import annotations

import time

from stoker.contract.process_end import is_child
from stoker.metrics.event_file import EventFile
from stoker.metrics.events import make_session_start
from stoker.metrics.ranks import is_resumed, run_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from stoker.contract.job import Job


def open_run(job: Job, *, purge_step: int | Literal["auto"] | None = "auto") -> EventFile:
    """The event file of this process, for the writer and the log alike.

    Args:
        job: says the folder.
        purge_step: from which step on readers drop what earlier attempts wrote. `auto` is the
            first one that a resumed job logs; None keeps everything.
    """
    file = EventFile(run_dir(job))
    if isinstance(purge_step, int):
        file.stream.add_message(make_session_start(time.time(), purge_step))
    # A DataLoader's worker is a helper of this attempt, not a new one.
    elif purge_step == "auto" and not is_child() and (file.stream.goes_on or is_resumed(job)):
        file.stream.purge_from_first_scalar()
    return file

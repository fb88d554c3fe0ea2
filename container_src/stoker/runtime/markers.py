"""Telling the readers of tensors and profiles that nothing will come any more.

smdebug leaves that to the platform when it runs in a job, and its readers wait for it for ever.
"""

from __future__ import annotations

import os

from stoker.contract.debugger import END_MARKER, profiler_dir, tensors_dir
from stoker.contract.files import open_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.contract.job import Job
    from stoker.runtime.log import Log


def write_end_markers(job: Job, log: Log, *, has_rules: bool = False) -> None:
    """Writes the marker in each folder that a reader may watch: the worker has ended.

    The evaluator of rules waits for it even if the worker has never saved a tensor.
    """
    profiles = profiler_dir(job.paths, job.services.profiler)
    tensors = tensors_dir(job.paths, job.services.debug_hook)
    for folder in (tensors, f"{profiles}/system", f"{profiles}/framework"):
        is_awaited = has_rules and folder == tensors
        if not is_awaited and not os.path.isdir(folder):
            continue
        try:
            os.makedirs(folder, exist_ok=True)
            os.close(open_regular(f"{folder}/{END_MARKER}", os.O_WRONLY | os.O_CREAT))
        except OSError as error:
            log.warning(f"{folder}/{END_MARKER} cannot be written: {error.strerror}")

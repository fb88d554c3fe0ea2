"""How readers of a job's tensors and profiles learn that no more will come.

They wait for training_job_end.ts in S3, and the service is who writes it, once: after the last
host has ended. An image need not do so, and one that does says it at every interruption.
"""

from __future__ import annotations

import io

from stoker.contract.debugger import END_MARKER
from stoker.host.platform.around.s3_uri import S3Uri, parse_uri
from stoker.host.platform.around.storage import Storage
from stoker.host.platform.jobs.folders import list_kept_folders
from stoker.host.platform.request import TrainingRequest

_FOLDERS = {"debug": ("",), "profiler": ("system", "framework")}


def put_end_markers(request: TrainingRequest, storage: Storage) -> None:
    """The job has ended, and all that it saved is in S3."""
    for place in list_end_markers(request):
        storage.upload(io.BytesIO(), place, patient=True)


def remove_end_markers(request: TrainingRequest, storage: Storage) -> None:
    """The job begins, or goes on."""
    for place in list_end_markers(request):
        storage.delete(place)


def list_end_markers(request: TrainingRequest) -> list[S3Uri]:
    """Where readers look for them; nowhere if the job saves neither tensors nor profiles."""
    return [
        parse_uri(kept.uri).join(*filter(None, [folder]), END_MARKER)
        for kept in list_kept_folders(request)
        for folder in _FOLDERS.get(kept.name, ())
    ]

"""Folders of a job that are kept in S3 while it runs, and the markers of their end."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from stoker.contract.debugger import END_MARKER
from stoker.contract.paths import OPT_ML
from stoker.platform.data.failures import UploadFailed
from stoker.platform.data.storage import S3Uri, Storage, parse_uri
from stoker.platform.data.sync import FolderSync
from stoker.platform.engines.engine import in_opt_ml
from stoker.platform.model.mount import Mount
from stoker.platform.model.processing_request import ProcessingRequest
from stoker.platform.model.request import TrainingRequest
from stoker.platform.model.root import Root


class FolderSyncs:
    """The uploaders of one attempt. A running job may be asked to keep more: UpdateTrainingJob."""

    def __init__(self, root: Root, storage: Storage, ending: ExitStack) -> None:
        """Args: ending: stops them, however the attempt ends."""
        self._root = root
        self._storage = storage
        self._ending = ending
        self._syncs: dict[tuple[str, SyncedFolder], FolderSync] = {}

    def start(self, request: TrainingRequest) -> None:
        """Starts those of a request that do not run yet."""
        kept = list_synced_folders(request)
        wanted = [(host, folder) for host in request.hosts for folder in kept]
        wanted += [(request.hosts[0], folder) for folder in list_rule_folders(request)]
        for host, folder in wanted:
            if (host, folder) in self._syncs:
                continue
            sync = make_sync(self._root, request, host, folder, self._storage)
            self._syncs[host, folder] = sync
            self._ending.callback(sync.flush_and_stop, 0.0)
            sync.start()

    def flush(self, seconds: float, on_failure: Callable[[UploadFailed], None]) -> None:
        """Uploads what is left."""
        for sync in self._syncs.values():
            try:
                sync.flush_and_stop(seconds)
            except UploadFailed as failure:
                on_failure(failure)


@dataclass(frozen=True, kw_only=True, slots=True)
class SyncedFolder:
    """A folder that is kept in S3."""

    name: str
    local_path: str
    """As the host sees it."""

    uri: str
    """The prefix of its files."""

    checkpoints: bool = False
    """Copied to the host before it starts; the uploader leaves its marker files."""


def list_synced_folders(request: TrainingRequest) -> list[SyncedFolder]:
    """What the request wants kept; the keys are the service's."""
    if isinstance(request, ProcessingRequest):
        return [
            SyncedFolder(name=f"output-{number}", local_path=output.local_path, uri=output.uri)
            for number, output in enumerate(request.outputs)
            if output.is_continuous
        ]
    kept = []
    if (asked := request.checkpoint) is not None:
        # One prefix for all hosts and all jobs that name it: that is how a job is resumed.
        kept.append(
            SyncedFolder(
                name="checkpoints",
                local_path=asked.local_path,
                uri=asked.uri,
                checkpoints=True,
            )
        )
    for name, folder in (
        ("tensorboard", request.tensorboard),
        ("debug", request.debug_hook),
        ("profiler", request.profiler),
    ):
        if folder is not None:
            uri = f"{folder.uri.rstrip('/')}/{request.name}/{name}-output"
            kept.append(SyncedFolder(name=name, local_path=folder.local_path, uri=uri))
    return kept


def list_rule_folders(request: TrainingRequest) -> list[SyncedFolder]:
    """Where the leader's evaluator leaves what the profiler's rules have seen, while it runs."""
    return [
        SyncedFolder(
            name=f"rule-{number}",
            local_path=f"{OPT_ML}/output/data/stoker/rule-output/{rule.name}",
            uri=f"{rule.output_uri}/{rule.name}",
        )
        for number, rule in enumerate(request.profiler_rules)
    ]


def make_sync(
    root: Root, request: TrainingRequest, host: str, kept: SyncedFolder, storage: Storage
) -> FolderSync:
    """The uploader of one folder of one host."""
    base, folder = _places(root, request, host, kept)
    return FolderSync(
        folder,
        kept.uri,
        storage,
        down=kept.checkpoints,
        markers=kept.checkpoints,
        base=base,
        journal=root.job_dir(request.name) / f"{host}-{kept.name}.journal",
        # smdebug writes `X.tmp` and renames it. Its readers fail at an unfinished index, and look
        # for the tensors of each index, and for no more of either after the end marker.
        unfinished=(".tmp",) if kept.name in ("debug", "profiler") else (),
        last=("index", END_MARKER) if kept.name == "debug" else (),
    )


def make_mounts(root: Root, request: TrainingRequest, host: str) -> list[Mount]:
    """The kept folders that are not below /opt/ml; they are made."""
    mounts = []
    for kept in list_synced_folders(request):
        if in_opt_ml(kept.local_path) is None:
            _, folder = _places(root, request, host, kept)
            folder.mkdir(parents=True, exist_ok=True)
            mounts.append(Mount(source=folder, target=kept.local_path))
    return mounts


def _places(
    root: Root, request: TrainingRequest, host: str, kept: SyncedFolder
) -> tuple[Path, Path]:
    """A folder that can be trusted, and the kept one below it, where the job may put links."""
    below = in_opt_ml(kept.local_path)
    if below is not None:
        base = root.host_dir(request.name, host)
        return base, base / below
    base = root.job_dir(request.name) / f"{host}-kept"
    return base, base / kept.name


_MARKED_FOLDERS = {"debug": ("",), "profiler": ("system", "framework")}


def put_end_markers(request: TrainingRequest, storage: Storage) -> None:
    """The job has ended, and all that it saved is in S3."""
    for place in list_end_markers(request):
        storage.upload(io.BytesIO(), place, patient=True)


def remove_end_markers(request: TrainingRequest, storage: Storage) -> None:
    """The job begins, or continues."""
    for place in list_end_markers(request):
        storage.delete(place)


def list_end_markers(request: TrainingRequest) -> list[S3Uri]:
    """Where readers look for them; nowhere if the job saves neither tensors nor profiles."""
    return [
        parse_uri(kept.uri).join(*filter(None, [folder]), END_MARKER)
        for kept in list_synced_folders(request)
        for folder in _MARKED_FOLDERS.get(kept.name, ())
    ]

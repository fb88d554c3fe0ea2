"""Which folders of a host are kept in S3 while it trains, and where they lie on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stoker.host.platform.around.storage import Storage
from stoker.host.platform.around.sync import FolderSync
from stoker.host.platform.engines.engine import Mount, in_opt_ml
from stoker.host.platform.request import TrainingRequest
from stoker.host.platform.root import Root


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptFolder:
    """A folder that is kept in S3."""

    name: str
    local_path: str
    """As the host sees it."""

    uri: str
    """The prefix its files lie under."""

    checkpoints: bool = False
    """Copied to the host before it starts; the uploader leaves its marker files."""


def list_kept_folders(request: TrainingRequest) -> list[KeptFolder]:
    """What the request wants kept; the keys are the service's."""
    kept = []
    if (asked := request.checkpoint) is not None:
        # One prefix for all hosts and all jobs that name it: that is how a job is resumed.
        kept.append(
            KeptFolder(
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
            kept.append(KeptFolder(name=name, local_path=folder.local_path, uri=uri))
    return kept


def make_sync(
    root: Root, request: TrainingRequest, host: str, kept: KeptFolder, storage: Storage
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
    )


def make_mounts(root: Root, request: TrainingRequest, host: str) -> list[Mount]:
    """The kept folders that do not lie below /opt/ml; they are made."""
    mounts = []
    for kept in list_kept_folders(request):
        if in_opt_ml(kept.local_path) is None:
            _, folder = _places(root, request, host, kept)
            folder.mkdir(parents=True, exist_ok=True)
            mounts.append(Mount(source=folder, target=kept.local_path))
    return mounts


def _places(
    root: Root, request: TrainingRequest, host: str, kept: KeptFolder
) -> tuple[Path, Path]:
    """A folder that can be trusted, and the kept one below it, where the job may put links."""
    below = in_opt_ml(kept.local_path)
    if below is not None:
        base = root.host_dir(request.name, host)
        return base, base / below
    base = root.job_dir(request.name) / f"{host}-kept"
    return base, base / kept.name

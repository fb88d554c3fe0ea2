"""What a job leaves: model.tar.gz and output.tar.gz, from all hosts, in S3."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stoker.host.platform.around.confined import open_file
from stoker.host.platform.around.failures import reading
from stoker.host.platform.around.file_window import FileWindow
from stoker.host.platform.around.merging import Merged
from stoker.host.platform.around.packing import pack
from stoker.host.platform.around.s3_uri import S3Uri, parse_uri
from stoker.host.platform.around.storage import Storage
from stoker.host.platform.request import TrainingRequest


@dataclass(frozen=True, kw_only=True, slots=True)
class Artifacts:
    """Where a job's results are."""

    model_uri: str | None
    """For ModelArtifacts.S3ModelArtifacts: an archive, or a prefix if it was not to be packed."""

    output_uri: str | None
    """Of output.tar.gz; None if no host has left anything in output/data."""

    skipped: tuple[str, ...] = ()
    """What was left out, each with its reason: links that lead out, sockets, clashing names."""


def pack_and_upload(
    request: TrainingRequest, hosts_dirs: Mapping[str, Path], storage: Storage, work_dir: Path
) -> Artifacts:
    """Upload /opt/ml/model and /opt/ml/output/data of all hosts; done again, it gives the same.

    An empty model is uploaded, too, as the service does; empty output is not.

    Args:
        request: the job.
        hosts_dirs: host → what was its /opt/ml, the leader first.
        storage: S3.
        work_dir: for the archives, until they are uploaded.

    Raises:
        UploadFailed: a file cannot be read, the disk is full, or S3 does not take it.
    """
    place = parse_uri(request.output_uri).join(request.name, "output")
    model = Merged(hosts_dirs, ("model",))
    output = Merged(hosts_dirs, ("output", "data"))
    output_uri = None
    with reading("what the job has left", work_dir):
        if request.compression == "NONE":
            model_uri = _upload_tree(model, place.join("model"), storage)
        else:
            model_uri = _upload_archive(model, place.join("model.tar.gz"), storage, work_dir)
        if not output.is_empty():
            output_uri = _upload_archive(output, place.join("output.tar.gz"), storage, work_dir)
    return Artifacts(
        model_uri=model_uri,
        output_uri=output_uri,
        skipped=(*model.skipped, *output.skipped),
    )


def _upload_archive(folder: Merged, uri: S3Uri, storage: Storage, work_dir: Path) -> str:
    archive = work_dir / uri.key.rpartition("/")[2]
    try:
        with reading(f"/opt/ml/{'/'.join(folder.parts)}", work_dir):
            work_dir.mkdir(parents=True, exist_ok=True)
            pack(folder, archive)
        storage.upload(archive, uri)
    finally:
        archive.unlink(missing_ok=True)
    return str(uri)


def _upload_tree(folder: Merged, uri: S3Uri, storage: Storage) -> str:
    for host_dir, entry in folder:
        if entry.is_folder:
            continue
        if not entry.is_file:
            folder.skip(entry, "not a file: only an archive could hold it")
            continue
        with (
            reading(entry.name, host_dir),
            open_file(host_dir, folder.parts + entry.parts) as file,
        ):
            window = FileWindow(file.fileno(), os.fstat(file.fileno()).st_size)
            storage.upload(window, uri.join(*entry.parts))
    return f"{uri}/"

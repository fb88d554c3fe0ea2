"""model.tar.gz and output.tar.gz: packed from the folders of all hosts, stored in S3."""

from __future__ import annotations

import io
import os
import posixpath
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from isal import igzip, igzip_threaded

from stoker.bus.progress import SHOWN_SECONDS, Progress, show_nothing
from stoker.contract.paths import OPT_ML
from stoker.platform.data.confined import Entry, FileWindow, Parts, open_file, read_link, walk
from stoker.platform.data.failures import reading
from stoker.platform.data.storage import CountedReads, S3Uri, Storage, parse_uri
from stoker.platform.model.processing_request import ProcessingRequest
from stoker.platform.model.request import TrainingRequest


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
    request: TrainingRequest,
    hosts_dirs: Mapping[str, Path],
    storage: Storage,
    work_dir: Path,
    *,
    show: Callable[[str], object] = show_nothing,
) -> Artifacts:
    """Upload /opt/ml/model and /opt/ml/output/data of all hosts; done again, it gives the same.

    An empty model is uploaded, too, as the service does; empty output is not.

    Args:
        request: the job.
        hosts_dirs: host → what was its /opt/ml, the leader first.
        storage: S3.
        work_dir: for the archives, until they are uploaded.
        show: gets a line from time to time that says how far it has come.

    Raises:
        UploadFailed: a file cannot be read, the disk is full, or S3 does not take it.
    """
    place = parse_uri(request.output_uri).join(request.name, "output")
    model = Merged(hosts_dirs, ("model",))
    output = Merged(hosts_dirs, ("output", "data"))
    output_uri = None
    with reading("what the job has left", work_dir):
        if request.compression == "NONE":
            model_uri = _upload_tree(model, place.join("model"), storage, show, "model")
        else:
            archive = work_dir / "model.tar.gz"
            model_uri = _upload_archive(model, place, storage, archive, show)
        if not output.is_empty():
            archive = work_dir / "output.tar.gz"
            output_uri = _upload_archive(output, place, storage, archive, show)
    return Artifacts(
        model_uri=model_uri,
        output_uri=output_uri,
        skipped=(*model.skipped, *output.skipped),
    )


def upload_outputs(
    request: ProcessingRequest,
    hosts_dirs: Mapping[str, Path],
    storage: Storage,
    *,
    show: Callable[[str], object] = show_nothing,
) -> tuple[str, ...]:
    """Upload the outputs of a processing job that were not uploaded while it ran.

    Returns:
        What was left out, each with its reason.

    Raises:
        UploadFailed: a file cannot be read, or S3 does not take it.
    """
    skipped: list[str] = []
    for output in request.outputs:
        if output.is_continuous:
            continue
        parts = tuple(output.local_path.removeprefix(f"{OPT_ML}/").split("/"))
        folder = Merged(hosts_dirs, parts)
        if folder.is_empty():
            skipped.append(
                f"output {output.name!r} is empty: nothing is below {output.local_path}; "
                "fix: write the results there"
            )
        with reading(output.local_path, next(iter(hosts_dirs.values()))):
            _upload_tree(folder, parse_uri(output.uri), storage, show, output.name)
        skipped += folder.skipped
    return tuple(skipped)


def _upload_archive(
    folder: Merged, place: S3Uri, storage: Storage, archive: Path, show: Callable[[str], object]
) -> str:
    uri = place.join(archive.name)
    try:
        with reading(f"/opt/ml/{'/'.join(folder.parts)}", archive.parent):
            archive.parent.mkdir(parents=True, exist_ok=True)
            pack(folder, archive, show=show)
        progress = _make_progress(f"upload of {archive.name}", archive.stat().st_size, show)
        storage.upload(archive, uri, patient=True, on_bytes=progress.add)
    finally:
        archive.unlink(missing_ok=True)
    return str(uri)


def _make_progress(what: str, total_bytes: int, show: Callable[[str], object]) -> Progress:
    return Progress(what, total_bytes, show=show, every_seconds=SHOWN_SECONDS)


def _upload_tree(
    folder: Merged, uri: S3Uri, storage: Storage, show: Callable[[str], object], name: str
) -> str:
    progress = _make_progress(f"upload of {name}", folder.size_bytes(), show)
    for host_dir, entry in folder:
        if entry.is_folder:
            continue
        if not entry.is_file:
            folder.skip(entry, "not a file: only an archive could hold it")
            continue
        target = uri.join(*entry.parts)
        if refusal := _find_key_refusal(target.key):
            folder.skip(entry, refusal)
            continue
        with (
            reading(entry.name, host_dir),
            open_file(host_dir, folder.parts + entry.parts) as file,
        ):
            window = FileWindow(file.fileno(), os.fstat(file.fileno()).st_size)
            storage.upload(window, target, patient=True, on_bytes=progress.add)
    return f"{uri}/"


def _find_key_refusal(key: str) -> str:
    """Why S3 cannot have an object of this name; empty if it can."""
    try:
        size_bytes = len(key.encode())
    except UnicodeEncodeError:
        return "its name is not UTF-8, but keys of S3 are"
    if size_bytes > _MOST_KEY_BYTES:
        return f"its key in S3 would have {size_bytes} bytes, and the most are {_MOST_KEY_BYTES}"
    return ""


_LEVEL = 2
"""Weights are noise in their lower bits: higher levels take longer and gain nothing."""
_MOST_THREADS = 8
_SPARE_THREADS = 2
"""Beyond one per core: each thread's queue holds a single block, and one may wait for the disk."""
_THREADED_BYTES = 32 << 20
"""Less is packed without threads: the library's notice only after 50 ms that there is no more."""
_BLOCK_BYTES = 1 << 18
"""Larger blocks come fresh from the kernel each time: twice its work for the same archive."""
# Not setuid and its like: the archive is unpacked on other machines.
_MODE_BITS = 0o777
_MOST_KEY_BYTES = 1024
"""As in the service."""


class _Writable(Protocol):
    def write(self, content: bytes, /) -> int: ...


def pack(folder: Merged, target: Path, *, show: Callable[[str], object] = show_nothing) -> None:
    """Write everything of a folder into an archive.

    Links that stay within the folder are kept as links. What would lead out of it, and sockets,
    pipes and devices are left out, and named in `folder.skipped`.

    Raises:
        OSError: a file cannot be read, or the disk is full.
    """
    seen_as = posixpath.join("/opt/ml", *folder.parts)
    size_bytes = folder.size_bytes()
    progress = _make_progress(f"packing of {target.name}", size_bytes, show)
    with _open_archive(target, size_bytes) as archive:
        for host_dir, entry in folder:
            if entry.is_file:
                _add_file(archive, host_dir, entry, folder, progress)
            elif entry.is_folder:
                archive.addfile(_make_member(entry, entry.status, tarfile.DIRTYPE))
            elif entry.is_link:
                _add_link(archive, host_dir, entry, folder, seen_as)
            else:
                folder.skip(entry, "neither a file, a folder nor a link")


@contextmanager
def _open_archive(target: Path, size_bytes: int) -> Iterator[tarfile.TarFile]:
    with target.open("wb", buffering=0) as file:
        disk = _Disk(file)
        with (
            _open_compressor(disk, size_bytes) as packed,
            tarfile.TarFile(
                fileobj=_Stream(packed, disk),  # type: ignore[arg-type]  # it only writes
                mode="w",
                copybufsize=_BLOCK_BYTES,
            ) as archive,
        ):
            yield archive
        disk.require_good()


def _open_compressor(disk: _Disk, size_bytes: int) -> AbstractContextManager[_Writable]:
    if size_bytes < _THREADED_BYTES:
        # Without a time in its header: packed again, it is the same.
        return igzip.IGzipFile(fileobj=disk, mode="wb", compresslevel=_LEVEL, mtime=0)  # type: ignore[no-untyped-call]  # it has no types
    threads = min(_MOST_THREADS, (os.cpu_count() or 1) + _SPARE_THREADS)
    return igzip_threaded.open(  # type: ignore[no-untyped-call,no-any-return]  # it has no types
        disk, "wb", compresslevel=_LEVEL, threads=threads, block_size=_BLOCK_BYTES
    )


class _Disk:
    """The file, for the compressor's own thread: an error there would hang it forever.

    So the first error is kept, later writes are dropped, and `require_good` raises it.
    """

    def __init__(self, file: io.FileIO) -> None:
        self._file = file
        self._error: OSError | None = None

    def write(self, content: bytes) -> int:
        view = memoryview(content)
        try:
            while view and not self._error:
                view = view[self._file.write(view) :]
        except OSError as error:
            self._error = error
        return len(content)

    def flush(self) -> None:
        """Nothing is buffered."""

    def close(self) -> None:
        """The code that opened the file closes it."""

    def require_good(self) -> None:
        if self._error:
            raise self._error


class _Stream:
    """What tarfile wants of a file; the compressor itself does not know where it is."""

    def __init__(self, packed: _Writable, disk: _Disk) -> None:
        self._packed = packed
        self._disk = disk
        self._position = 0

    def write(self, content: bytes) -> int:
        self._disk.require_good()
        self._packed.write(content)
        self._position += len(content)
        return len(content)

    def tell(self) -> int:
        return self._position


def _add_file(
    archive: tarfile.TarFile, host_dir: Path, entry: Entry, folder: Merged, progress: Progress
) -> None:
    try:
        file = open_file(host_dir, folder.parts + entry.parts)
    except FileNotFoundError:
        return
    with file:
        member = _make_member(entry, os.fstat(file.fileno()), tarfile.REGTYPE)
        archive.addfile(member, CountedReads(file, progress.add))


def _add_link(
    archive: tarfile.TarFile, host_dir: Path, entry: Entry, folder: Merged, seen_as: str
) -> None:
    target = read_link(host_dir, folder.parts + entry.parts)
    here = posixpath.dirname(posixpath.join(seen_as, entry.name))
    # By its text, as the container saw it: on this machine /opt/ml is another folder.
    wanted = posixpath.normpath(posixpath.join(here, target))
    if not wanted.startswith(f"{seen_as}/") and wanted != seen_as:
        folder.skip(entry, f"a link out of the folder, to {target}")
        return
    member = _make_member(entry, entry.status, tarfile.SYMTYPE)
    # An absolute one would lead nowhere on the machine that unpacks it.
    member.linkname = posixpath.relpath(wanted, here) if target.startswith("/") else target
    archive.addfile(member)


def _make_member(entry: Entry, status: os.stat_result, kind: bytes) -> tarfile.TarInfo:
    """Owned by root, as on the service: the archive does not say who ran the platform."""
    member = tarfile.TarInfo(entry.name)
    member.type = kind
    member.size = status.st_size if kind == tarfile.REGTYPE else 0
    member.mode = status.st_mode & _MODE_BITS
    member.mtime = int(status.st_mtime)
    return member


@dataclass(slots=True)
class Merged:
    """The folder of all hosts; what could not be taken is named."""

    hosts_dirs: Mapping[str, Path]
    """Host → what was its /opt/ml; the first one's files win."""

    parts: Parts
    """The folder, below each of them."""

    skipped: list[str] = field(default_factory=list)
    """Names with the reason; complete once all was read."""

    def __iter__(self) -> Iterator[tuple[Path, Entry]]:
        """Everything of all hosts, each name once, with the host's folder it is in."""
        is_folder: dict[Parts, bool] = {}
        for host, host_dir in self.hosts_dirs.items():
            for entry in walk(host_dir, self.parts):
                above = (entry.parts[:length] for length in range(1, len(entry.parts)))
                if not all(is_folder[parts] for parts in above):
                    continue  # in a folder that was skipped for another host's file
                if entry.parts not in is_folder:
                    is_folder[entry.parts] = entry.is_folder
                    yield host_dir, entry
                elif not (entry.is_folder and is_folder[entry.parts]):
                    self.skip(entry, f"{host} has written it, but a host before it, too")

    def skip(self, entry: Entry, reason: str) -> None:
        """Name what is left out."""
        self.skipped.append(f"{'/'.join((*self.parts, *entry.parts))}: {reason}")

    def size_bytes(self) -> int:
        """Of the files of all hosts; those that are left out count, too: it is an estimate."""
        return sum(
            entry.status.st_size
            for host_dir in self.hosts_dirs.values()
            for entry in walk(host_dir, self.parts)
            if entry.is_file
        )

    def is_empty(self) -> bool:
        """Whether no host has left anything but folders."""
        return all(
            entry.is_folder
            for host_dir in self.hosts_dirs.values()
            for entry in walk(host_dir, self.parts)
        )

"""A folder as a channel in a bucket: sent once for each content, continued where it was cut.

Its place is named by its content: BASE/stoker/channels/DIGEST/. What is in that place already is
right, so an upload that was cut is continued. When all files are there, DIGEST.json is written
next to it: one request shows that nothing is to be done. Files that an earlier version of the same
folder had are copied inside S3.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from stoker.bus.progress import Progress, show_nothing
from stoker.cloud.upload.bucket import THREADS, Bucket
from stoker.cloud.upload.folder import Folder, FolderFile
from stoker.contract.files import write_atomically

FOLDER = "stoker/channels/"


@dataclass(frozen=True, kw_only=True, slots=True)
class Sent:
    """What an upload did."""

    uri: str
    """Of the channel, with a slash at the end."""
    sent_files: int
    sent_bytes: int
    copied_files: int


def channel_key(prefix: str, digest: str) -> str:
    """Where the content goes, in the bucket."""
    return f"{prefix}{FOLDER}{digest}/"


def send_folder(
    folder: Folder,
    bucket: Bucket,
    *,
    prefix: str = "",
    memory: Path | None = None,
    show: Callable[[str], object] = show_nothing,
    name: str = "channel",
) -> Sent:
    """Make the bucket have a folder's content.

    Args:
        folder: what was read.
        bucket: where it goes.
        prefix: of all keys; empty, or with a slash at the end.
        memory: a folder of Stoker's own that knows earlier versions; None: they are not used.
        show: gets a line from time to time that says how far it has come.
        name: of the channel, for that line.
    """
    place = channel_key(prefix, folder.digest)
    marker = f"{place.removesuffix('/')}.json"
    uri = f"s3://{bucket.name}/{place}"
    if bucket.has(marker):
        _remember(memory, folder, bucket, place)
        return Sent(uri=uri, sent_files=0, sent_bytes=0, copied_files=0)
    there = bucket.sizes(place)
    left = [f for f in folder.files if there.get(place + f.name) != f.size_bytes]
    progress = Progress(f"upload of {name}", sum(f.size_bytes for f in left), show=show)
    counts = _send_files(left, bucket, place, _read_earlier(memory, folder, bucket), progress)
    # Last: what it lists is there.
    listed = {
        file.name: {"bytes": file.size_bytes, "sha256": file.sha256} for file in folder.files
    }
    bucket.put_text(marker, json.dumps({"files": listed}))
    _remember(memory, folder, bucket, place)
    return Sent(
        uri=uri, sent_files=counts.sent, sent_bytes=counts.size_bytes, copied_files=counts.copied
    )


def _send_files(
    files: list[FolderFile],
    bucket: Bucket,
    place: str,
    earlier: Mapping[str, str],
    progress: Progress,
) -> _Counts:
    """Copy what an earlier version had, and send the rest."""
    counts = _Counts()

    def send(file: FolderFile) -> None:
        source = earlier.get(file.sha256)
        if source and bucket.copy(source, place + file.name):
            counts.add(copied=1)
            progress.add(file.size_bytes)
        else:
            bucket.put(place + file.name, file, on_bytes=progress.add)
            counts.add(sent=1, size_bytes=file.size_bytes)

    _in_threads(send, files)
    return counts


class _Counts:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.sent = self.copied = self.size_bytes = 0

    def add(self, *, sent: int = 0, copied: int = 0, size_bytes: int = 0) -> None:
        with self._lock:
            self.sent += sent
            self.copied += copied
            self.size_bytes += size_bytes


def _in_threads(send: Callable[[FolderFile], None], files: list[FolderFile]) -> None:
    """All files; after the first error nothing new is begun, and it is raised."""
    with ThreadPoolExecutor(THREADS) as threads:
        futures: list[Future[None]] = [threads.submit(send, file) for file in files]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
        except BaseException:  # also Ctrl-C: else the pool would send all that is left
            threads.shutdown(wait=False, cancel_futures=True)
            raise


def _memory_file(memory: Path, folder: Folder, bucket: Bucket) -> Path:
    name = sha256(f"{bucket.name}\0{folder.path}".encode(errors="surrogateescape")).hexdigest()
    return memory / f"{name[:32]}.sent.json"


def _read_earlier(memory: Path | None, folder: Folder, bucket: Bucket) -> dict[str, str]:
    """Content hash → key of an object that had it when this folder was sent last."""
    if memory is None:
        return {}
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        content = json.loads(_memory_file(memory, folder, bucket).read_text())
        place = str(content["place"])
        return {sha: place + name for name, sha in content["files"].items()}
    return {}


def _remember(memory: Path | None, folder: Folder, bucket: Bucket, place: str) -> None:
    if memory is None:
        return
    file = _memory_file(memory, folder, bucket)
    with suppress(OSError, ValueError, KeyError, TypeError):
        if json.loads(file.read_text())["place"] == place:
            return
    content = {"place": place, "files": {each.name: each.sha256 for each in folder.files}}
    with suppress(OSError):  # without it the next version is sent as a whole
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(str(file), json.dumps(content))

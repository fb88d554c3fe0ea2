"""A folder of a running job, kept in S3: checkpoints, TensorBoard, tensors, profiler.

As documented (facts: container-contract §12): filled from S3 before the job starts; afterwards
only local changes count. A local delete deletes in S3; what others add in S3 is not pulled.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

from stoker.host.platform.around.confined import (
    Parts,
    make_folder,
    make_fresh_folder,
    open_file,
    open_folder,
    walk,
    write_file,
)
from stoker.host.platform.around.failures import (
    UploadFailed,
    make_disk_fix,
    say,
    storing,
)
from stoker.host.platform.around.file_window import FileWindow
from stoker.host.platform.around.fingerprints import (
    Fingerprint,
    make_fingerprint,
    read_journal,
    read_settled,
    write_journal,
)
from stoker.host.platform.around.markers import (
    UPLOADED,
    UPLOADING,
    clear_markers,
    is_ignored,
    set_marker,
)
from stoker.host.platform.around.objects import list_below, read_parts
from stoker.host.platform.around.s3_uri import S3Uri, parse_uri
from stoker.host.platform.around.storage import Storage
from stoker.host.platform.around.transfers import run_all

_INTERVAL_SECONDS = 1.0
_RETRY_SECONDS = 0.5
_WORKERS = 4


class FolderSync:
    """Keeps one folder of one host in S3, from start to flush_and_stop."""

    def __init__(
        self,
        folder: Path,
        uri: str,
        storage: Storage,
        *,
        down: bool,
        markers: bool,
        base: Path | None = None,
        journal: Path | None = None,
    ) -> None:
        """Nothing is done yet.

        Args:
            folder: on this machine.
            uri: the folder's own prefix in S3.
            storage: S3.
            down: whether `restore` fills the folder.
            markers: whether the uploader leaves its marker files.
            base: a folder above that can be trusted: no link below it is followed. The parent
                of the folder, if none is given.
            journal: a file, outside the job's reach, that remembers what was uploaded: then
                deletes are mirrored even if they happen while no server runs.
        """
        self._base = base or folder.parent
        self._parts: Parts = folder.relative_to(self._base).parts
        self._uri = parse_uri(uri)
        self._storage = storage
        self._down = down
        self._markers = markers
        self._journal = journal
        self._known = read_journal(journal) if journal else {}
        self._failures: dict[Parts, UploadFailed] = {}
        self._hopeless: set[Parts] = set()  # no later try can mend these
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def failures(self) -> tuple[UploadFailed, ...]:
        """What has not reached S3 yet, each with the reason of the last try."""
        return tuple(self._failures.values())

    def restore(self, *, cancelled: threading.Event | None = None) -> None:
        """Make the folder hold what S3 holds: a fresh host knows nothing else.

        Raises:
            DownloadFailed: an object cannot be read or stored.
            TransferCancelled: the event was set.
        """
        with storing(self._uri, self._base):
            self._base.mkdir(parents=True, exist_ok=True)
            make_fresh_folder(self._base, self._parts)
        self._known = {}
        if self._down:
            listed = list_below(self._uri, self._storage)
            wanted = [(uri, read_parts(uri, name)) for uri, name in listed]

            def copy(task: tuple[S3Uri, Parts]) -> None:
                self._download(*task, cancelled=cancelled)

            run_all([task for task in wanted if not is_ignored(task[1])], copy)
        self._remember()

    def start(self) -> None:
        """Begin to upload what changes."""
        with storing(self._uri, self._base):
            self._base.mkdir(parents=True, exist_ok=True)
            if not self._base.joinpath(*self._parts).is_dir():
                self._known = {}  # the folder is lost, which is no wish to delete its files in S3
            make_folder(self._base, self._parts)
        self._thread = threading.Thread(target=self._run, name=f"sync-{self._uri}", daemon=True)
        self._thread.start()

    def flush_and_stop(self, deadline_seconds: float) -> None:
        """Upload what is left, trying again what fails until the time is up, and end.

        With no time at all it only ends. Called again, it does nothing.

        Raises:
            UploadFailed: something could not be uploaded in time.
        """
        if self._stopping.is_set():
            return
        self._stopping.set()
        if self._thread:
            self._thread.join()
        if deadline_seconds <= 0:
            return
        deadline = time.monotonic() + deadline_seconds
        self._look(lambda: time.monotonic() > deadline)
        while self._failures:
            hopeless = self._failures.keys() <= self._hopeless
            if hopeless or time.monotonic() + _RETRY_SECONDS > deadline:
                raise self._make_failure()
            time.sleep(_RETRY_SECONDS)
            self._look(lambda: time.monotonic() > deadline)

    def _run(self) -> None:
        while not self._stopping.wait(_INTERVAL_SECONDS):
            self._look(self._stopping.is_set)

    def _look(self, is_over: Callable[[], bool]) -> None:
        """Compare the folder with what S3 was given, and act on each difference.

        Args:
            is_over: no more is begun then: with S3 away each file takes seconds to fail.
        """
        self._failures.clear()
        try:
            present = self._read_folder()
        except OSError as error:
            self._fail((), error)
            return
        if present is None:
            return
        gone = [parts for parts in self._known if parts not in present]
        changed = [parts for parts, mark in present.items() if self._known.get(parts) != mark]
        for parts in (*gone, *changed):
            self._fail(parts, TimeoutError(errno.ETIMEDOUT, "there was no time for it"))
        # Deletes first: where a folder was, there may be a file now.
        for tasks, act in ((gone, self._delete), (changed, self._upload)):
            run_all(takewhile(lambda _: not is_over(), tasks), act, workers=_WORKERS)
        if gone or changed:
            self._remember()

    def _read_folder(self) -> dict[Parts, Fingerprint] | None:
        """Every file that counts; None while the whole folder is away.

        Then nothing is deleted: a folder that a job makes anew, or that was cleaned away, is no
        reason to lose all checkpoints.
        """
        try:
            with open_folder(self._base, self._parts):
                pass
        except (FileNotFoundError, NotADirectoryError):
            return None
        return {
            entry.parts: make_fingerprint(entry.status)
            for entry in walk(self._base, self._parts)
            if entry.is_file and not is_ignored(entry.parts)
        }

    def _upload(self, parts: Parts) -> None:
        try:
            with suppress(FileNotFoundError):  # vanished since: the next look will see that
                self._upload_now(parts)
            self._failures.pop(parts)
        except (OSError, UnicodeError) as error:
            self._fail(parts, error)
        except UploadFailed as failure:
            self._failures[parts] = failure
        finally:
            if self._markers:
                clear_markers(self._base, self._parts + parts, UPLOADING)

    def _upload_now(self, parts: Parts) -> None:
        place = self._parts + parts
        with open_file(self._base, place) as file:
            before = read_settled(file.fileno())
            if self._markers:
                clear_markers(self._base, place, UPLOADED)
                set_marker(self._base, place, UPLOADING)
            window = FileWindow(file.fileno(), before.size_bytes)
            self._storage.upload(window, self._uri.join(*parts))
            unchanged = make_fingerprint(os.fstat(file.fileno())) == before
        # If it has changed meanwhile, it differs from what is known: the next look uploads it.
        self._known[parts] = before
        if self._markers and unchanged:
            set_marker(self._base, place, UPLOADED)

    def _delete(self, parts: Parts) -> None:
        try:
            self._storage.delete(self._uri.join(*parts))
        except UploadFailed as failure:
            self._failures[parts] = failure
            return
        self._known.pop(parts)
        self._failures.pop(parts)
        if self._markers:
            clear_markers(self._base, self._parts + parts)

    def _download(self, uri: S3Uri, parts: Parts, *, cancelled: threading.Event | None) -> None:
        with storing(uri, self._base), write_file(self._base, self._parts + parts) as file:
            self._storage.download(uri, file, cancelled=cancelled)
            self._known[parts] = make_fingerprint(os.fstat(file.fileno()))

    def _fail(self, parts: Parts, error: OSError | UnicodeError) -> None:
        name = "/".join((*self._parts, *parts)).encode(errors="replace").decode()
        if isinstance(error, OSError):
            said, fix = say(error), make_disk_fix(error, self._base / name)
        else:
            said, fix = "its name is not UTF-8, but keys of S3 are", "rename it"
            self._hopeless.add(parts)
        self._failures[parts] = UploadFailed(f"{name} cannot be uploaded: {said}", fix=fix)

    def _make_failure(self) -> UploadFailed:
        first, *others = self._failures.values()
        more = f" (and {len(others)} more)" if others else ""
        return UploadFailed(f"{first.message}{more}", fix=first.fix)

    def _remember(self) -> None:
        if self._journal:
            with suppress(OSError):  # it only saves work after a crash
                write_journal(self._journal, dict(self._known))

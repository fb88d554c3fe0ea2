"""A folder of a running job, kept in S3: checkpoints, TensorBoard, tensors, profiler."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import groupby, takewhile
from pathlib import Path
from typing import NamedTuple

from stoker.bus.progress import SHOWN_SECONDS, Progress, show_nothing
from stoker.contract.upload_markers import IGNORED, UPLOADED, UPLOADING
from stoker.platform.data.confined import (
    FileWindow,
    Parts,
    make_folder,
    make_fresh_folder,
    open_file,
    open_folder,
    remove_file,
    walk,
    write_file,
)
from stoker.platform.data.failures import UploadFailed, make_disk_fix, say, storing
from stoker.platform.data.objects import list_below, read_parts, run_all
from stoker.platform.data.storage import S3Uri, Storage, parse_uri

# How often the service looks is not published.
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
        unfinished: tuple[str, ...] = (),
        last: tuple[str, ...] = (),
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
            unfinished: how names of files end that get another name once they are whole; they
                are not uploaded, and removed where an earlier look did.
            last: names at the top of the folder, of files or folders. What is below them
                announces the other files, so each is uploaded after all that come before it.
        """
        self._base = base or folder.parent
        self._parts: Parts = folder.relative_to(self._base).parts
        self._uri = parse_uri(uri)
        self._storage = storage
        self._down = down
        self._markers = markers
        self._journal = journal
        self._unfinished = unfinished
        self._last = last
        self._known = read_journal(journal) if journal else {}
        self._failures: dict[Parts, UploadFailed] = {}
        self._hopeless: set[Parts] = set()  # no later try can upload these
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def failures(self) -> tuple[UploadFailed, ...]:
        """What has not reached S3 yet, each with the reason of the last try."""
        return tuple(self._failures.values())

    def restore(
        self,
        *,
        cancelled: threading.Event | None = None,
        show: Callable[[str], object] = show_nothing,
    ) -> None:
        """Make the folder hold what S3 holds: a fresh host knows nothing else.

        Args:
            cancelled: ends it early.
            show: gets a line from time to time that says how far it has come.

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
            found = [(uri, read_parts(uri, name), size) for uri, name, size in listed]
            wanted = [each for each in found if not is_ignored(each[1])]
            total_bytes = sum(size for _, _, size in wanted)
            what = self._parts[-1]
            progress = Progress(what, total_bytes, show=show, every_seconds=SHOWN_SECONDS)

            def copy(task: tuple[S3Uri, Parts, int]) -> None:
                uri, parts, _ = task
                self._download(uri, parts, cancelled=cancelled, on_bytes=progress.add)

            run_all(wanted, copy)
        self._remember()

    def start(self) -> None:
        """Begin to upload what changes."""
        with storing(self._uri, self._base):
            self._base.mkdir(parents=True, exist_ok=True)
            if not self._base.joinpath(*self._parts).is_dir():
                self._known = {}  # the folder is lost; its files in S3 must not be deleted
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
            # Counts as failed until it is done, so what no time was left for is in the message of
            # the job.
            self._fail(parts, TimeoutError(errno.ETIMEDOUT, "there was no time for it"))
        # Deletes first: where a folder was, there may be a file now.
        run_all(takewhile(lambda _: not is_over(), gone), self._delete, workers=_WORKERS)
        for _, tasks in groupby(sorted(changed, key=self._rank), key=self._rank):
            wave = list(tasks)
            run_all(takewhile(lambda _: not is_over(), wave), self._upload, workers=_WORKERS)
            if self._failures.keys() & set(wave) - self._hopeless:
                break  # what announces these must wait, too
        if gone or changed:
            self._remember()

    def _read_folder(self) -> dict[Parts, Fingerprint] | None:
        """Every file that counts; None while the whole folder is away.

        Then nothing is deleted: a job that makes its folder again, or a clean-up that removes it,
        must not lose all checkpoints.
        """
        try:
            with open_folder(self._base, self._parts):
                pass
        except (FileNotFoundError, NotADirectoryError):
            return None
        # Listed before the files that they announce: of these, none may be missing below.
        announcing = {
            (name, *entry.parts)
            for name in self._last
            for entry in walk(self._base, (*self._parts, name))
        }
        return {
            entry.parts: make_fingerprint(entry.status)
            for entry in walk(self._base, self._parts)
            if entry.is_file
            and not is_ignored(entry.parts)
            and not entry.parts[-1].endswith(self._unfinished)
            and (len(entry.parts) == 1 or not self._rank(entry.parts) or entry.parts in announcing)
        }

    def _rank(self, parts: Parts) -> int:
        """Which wave of uploads a file belongs to."""
        return self._last.index(parts[0]) + 1 if parts[0] in self._last else 0

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
                # First: next to an old `uploaded`, the new `uploading` would mean that it is done.
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

    def _download(
        self,
        uri: S3Uri,
        parts: Parts,
        *,
        cancelled: threading.Event | None,
        on_bytes: Callable[[int], object],
    ) -> None:
        with storing(uri, self._base), write_file(self._base, self._parts + parts) as file:
            self._storage.download(uri, file, cancelled=cancelled, on_bytes=on_bytes)
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


_CLOCK_TICK_SECONDS = 0.05
"""Longer than a tick of the kernel's clock for file times: two writes may share a time."""


class Fingerprint(NamedTuple):
    """A file's identity at one moment."""

    inode: int
    size_bytes: int
    modified_ns: int


def make_fingerprint(status: os.stat_result) -> Fingerprint:
    """The identity of a file, from its status."""
    return Fingerprint(status.st_ino, status.st_size, status.st_mtime_ns)


def read_settled(descriptor: int) -> Fingerprint:
    """The identity of an open file, such that any later write changes it."""
    age_seconds = (time.time_ns() - os.fstat(descriptor).st_mtime_ns) / 1e9
    if 0 <= age_seconds < _CLOCK_TICK_SECONDS:
        time.sleep(_CLOCK_TICK_SECONDS - age_seconds)
    return make_fingerprint(os.fstat(descriptor))


def read_journal(journal: Path) -> dict[Parts, Fingerprint]:
    """What had been uploaded when the journal was written; empty if there is none."""
    try:
        lines = json.loads(journal.read_text())
        return {tuple(name.split("/")): Fingerprint(*numbers) for name, numbers in lines.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def write_journal(journal: Path, known: Mapping[Parts, Fingerprint]) -> None:
    """Keep what has been uploaded."""
    part = journal.with_name(f"{journal.name}.tmp")
    part.write_text(json.dumps({"/".join(parts): print_ for parts, print_ in known.items()}))
    part.replace(journal)


_NEVER_UPLOADED = (IGNORED, UPLOADING, UPLOADED)
_MARKER = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def is_ignored(parts: Parts) -> bool:
    """Whether a file, or a folder above it, is none of the uploader's business."""
    return any(part.endswith(_NEVER_UPLOADED) for part in parts)


def set_marker(base: Path, parts: Parts, suffix: str) -> None:
    """Put a marker next to a file. It is not an error if the job has removed the folder."""
    with suppress(OSError), open_folder(base, parts[:-1]) as folder:
        os.close(os.open(parts[-1] + suffix, _MARKER, 0o644, dir_fd=folder))


def clear_markers(base: Path, parts: Parts, *suffixes: str) -> None:
    """Remove the markers next to a file."""
    for suffix in suffixes or (UPLOADING, UPLOADED):
        with suppress(OSError):
            remove_file(base, (*parts[:-1], parts[-1] + suffix))

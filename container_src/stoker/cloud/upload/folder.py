"""What is in a folder: names, sizes and content hashes.

Modification times say nothing about content: a fresh clone has new ones. They only tell whether a
file is still the one whose hash is remembered.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from stoker.contract.files import write_atomically
from stoker.machine.failures import UsageRefused

_THREADS = min(8, (os.cpu_count() or 2) + 1)
# A file that changed so shortly before it was read may change again within the same time stamp.
_YOUNG_NS = 2 * 10**9
_VERSION = 1  # of the file of known hashes: one of another version is made again


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderFile:
    """One file."""

    folder: Path
    name: str
    """Relative to the folder, with '/'."""
    size_bytes: int
    stamp: tuple[int, int, int]
    """Size, modification time and inode: equal while the file is the same."""
    sha256: str

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.folder / self.name


@dataclass(frozen=True, kw_only=True, slots=True)
class Folder:
    """All files of a folder."""

    path: Path
    files: tuple[FolderFile, ...]
    digest: str
    """Of names and contents: equal folders have equal ones, wherever they are."""

    @property
    def size_bytes(self) -> int:
        """Of all files."""
        return sum(file.size_bytes for file in self.files)


def measure_folder(path: Path) -> tuple[int, int]:
    """How many files a folder has, and their bytes; nothing is read."""
    sizes = [status.st_size for _, status in _walk(path)]
    return len(sizes), sum(sizes)


def read_folder(
    path: Path, *, memory: Path | None = None, on_bytes: Callable[[int], object] = int
) -> Folder:
    """Hash the files of a folder; those that did not change are not read again.

    Args:
        path: the folder.
        memory: a folder of Stoker's own for the hashes; None: they are not kept.
        on_bytes: gets the size of each file that has been looked at.

    Raises:
        UsageRefused: a file cannot be read, or is not a regular one.
    """
    remembered = (
        memory / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:32]}.json" if memory else None
    )
    known = _read_memory(remembered)
    began_ns = time.time_ns()

    def hashed(entry: tuple[str, os.stat_result]) -> FolderFile:
        name, status = entry
        stamp = make_stamp(status)
        sha256 = known.get(name, {}).get(stamp) or _hash(path / name)
        on_bytes(status.st_size)
        return FolderFile(
            folder=path, name=name, size_bytes=status.st_size, stamp=stamp, sha256=sha256
        )

    try:
        entries = sorted(_walk(path), key=lambda entry: entry[0])
        if all(make_stamp(status) in known.get(name, {}) for name, status in entries):
            files = [hashed(entry) for entry in entries]
        else:
            with ThreadPoolExecutor(_THREADS) as threads:
                files = list(threads.map(hashed, entries))
    except OSError as error:
        raise UsageRefused(
            f"{error.filename} cannot be read: {error.strerror}",
            fix="make it readable, or remove it from the folder",
        ) from error
    if remembered:
        _write_memory(remembered, files, known, before_ns=began_ns - _YOUNG_NS)
    digest = hashlib.sha256()
    for each in files:
        digest.update(f"{each.name}\0{each.sha256}\0".encode())
    return Folder(path=path, files=tuple(files), digest=digest.hexdigest()[:32])


def make_stamp(status: os.stat_result) -> tuple[int, int, int]:
    """What tells whether a file is still the same."""
    return status.st_size, status.st_mtime_ns, status.st_ino


def _hash(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _walk(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Names and states; links are followed, as the container would see them."""
    for base, folders, names in os.walk(folder, followlinks=True, onerror=_raise):
        if os.path.islink(base) and _leads_back(Path(base), folder):
            folders.clear()  # it would never end
            continue
        # Plain strings: a Path for each of many thousand files takes longer than all the rest.
        inside = os.path.relpath(base, folder)
        above = "" if inside == os.curdir else f"{inside}/"
        for name in names:
            yield f"{above}{name}", _require_regular(f"{base}/{name}", f"{above}{name}")


def _leads_back(link: Path, folder: Path) -> bool:
    """Whether a link is to a folder above, or to one that the way to it has passed."""
    target = link.resolve()
    passed = ((folder / part).resolve() for part in link.relative_to(folder).parents)
    return folder.resolve().is_relative_to(target) or target in passed


def _require_regular(path: str, name: str) -> os.stat_result:
    try:
        name.encode()
        status = os.stat(path)
    except UnicodeEncodeError as error:
        raise UsageRefused(
            f"{name!r} has a name that is not UTF-8: S3 has no such keys", fix="rename the file"
        ) from error
    except FileNotFoundError as error:
        raise UsageRefused(f"{path} is a link to nothing", fix="remove the link") from error
    if not stat.S_ISREG(status.st_mode):
        raise UsageRefused(f"{path} is not a regular file", fix="remove it from the folder")
    return status


def _raise(error: OSError) -> None:
    raise error


_Known = Mapping[str, Mapping[tuple[int, int, int], str]]


def _read_memory(file: Path | None) -> _Known:
    if file is None:
        return {}
    with suppress(OSError, ValueError, KeyError, TypeError):
        content = json.loads(file.read_text())
        if content["version"] == _VERSION:
            return {name: {(a, b, c): sha} for name, (a, b, c, sha) in content["files"].items()}
    return {}


def _write_memory(file: Path, files: list[FolderFile], known: _Known, *, before_ns: int) -> None:
    kept = {each.name: [*each.stamp, each.sha256] for each in files if each.stamp[1] < before_ns}
    if len(kept) == len(known) and all(tuple(v[:3]) in known.get(k, {}) for k, v in kept.items()):
        return
    with suppress(OSError):  # without it the next upload reads everything again
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(str(file), json.dumps({"version": _VERSION, "files": kept}))

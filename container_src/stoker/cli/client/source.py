"""The code of a job: which files of the source folder it gets, and one archive of them."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.bus.progress import Progress
from stoker.machine.failures import UsageRefused
from stoker.machine.units import show_size

ARCHIVE_NAME = "sourcedir.tar.gz"
_IGNORE_FILES = (".gitignore", ".stokerignore")  # what the second says counts more
_LEFT_OUT = {".git", "__pycache__", ".venv", ".work", ".mypy_cache", ".pytest_cache"}
# 128 bits of SHA-256: enough for a name, and short in a log.
_DIGEST_LETTERS = 32
_LARGE_BYTES = 50 * 10**6
_MOST_BYTES = 10**9  # more is most likely data, and is sent only on request
_MOST_NAMED = 3

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_Rules = tuple[tuple[Path, "GitIgnoreSpec"], ...]
"""Folder → the patterns of its ignore files; a folder's own come after those above it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """The files of a source folder that a job gets."""

    folder: Path
    names: tuple[str, ...]
    """Files and links, relative to the folder, sorted."""

    ignored: tuple[str, ...]
    """What ignore files leave out; of an ignored folder, only its own name."""

    channels: tuple[str, ...]
    """Folders that the job gets as channels."""

    links_out: tuple[str, ...]
    """Links to what is not a file of this folder: no job could follow them."""

    size_bytes: int
    digest: str
    """Of names, modes and contents: the same code has the same archive."""

    def explain(self) -> Iterator[str]:
        """What the user should know before the job runs."""
        if self.ignored:
            yield (
                f"code: left out by .gitignore or .stokerignore: {_name_some(self.ignored)}"
                " (a line !PATTERN in .stokerignore keeps a file)"
            )
        if self.channels:
            yield f"code: left out, since they are channels: {_name_some(self.channels)}"
        if self.links_out:
            yield (
                f"code: left out, since they lead out of {self.folder}: "
                f"{_name_some(self.links_out)} (pass data as --channel NAME=FOLDER)"
            )
        if self.size_bytes > _LARGE_BYTES:
            yield (
                f"code: {self.folder} has {show_size(self.size_bytes)}; data belongs into "
                "--channel NAME=FOLDER, which is not copied; .stokerignore leaves files out"
            )


def read_source(
    folder: Path,
    entry_point: str,
    *,
    channels: Collection[Path] = (),
    is_large_allowed: bool = False,
) -> Source:
    """Look at a source folder.

    Args:
        folder: with the code.
        entry_point: the script, relative to it.
        channels: folders that reach the job by themselves; those that hold the script are code.
        is_large_allowed: whether it may have more than 1 GB.

    Raises:
        UsageRefused: the script is left out, a file cannot be read, or it is too large.
    """
    names: list[str] = []
    ignored: list[str] = []
    as_channels: list[str] = []
    elsewhere = {each.resolve() for each in channels} - {*(folder / entry_point).resolve().parents}
    links_out: list[str] = []
    digest = hashlib.sha256()
    size_bytes = 0
    try:
        for path, is_ignored in _walk(folder, _read_rules_above(folder), elsewhere):
            name = path.relative_to(folder).as_posix()
            if elsewhere and path.is_dir() and path.resolve() in elsewhere:
                as_channels.append(name)
            elif is_ignored:
                ignored.append(name)
            # A link to a file elsewhere is packed as that file; a folder elsewhere may be data of
            # any size.
            elif leads_out(path, folder) and not path.is_file():
                links_out.append(name)
            else:
                names.append(name)
                size_bytes += _find_content(path, folder).lstat().st_size
        _require_size(folder, size_bytes, is_large_allowed=is_large_allowed)
        # In a fixed order, since the digest is over all of them.
        for name in sorted(names):
            _add(digest, _find_content(folder / name, folder), name)
    except OSError as error:
        raise UsageRefused(
            f"the code cannot be read: {error}",
            fix="make the file readable, or leave it out: add its name to .stokerignore",
        ) from error
    _require_script(folder, entry_point, names)
    return Source(
        folder=folder,
        names=tuple(sorted(names)),
        ignored=tuple(sorted(ignored)),
        channels=tuple(as_channels),
        links_out=tuple(sorted(links_out)),
        size_bytes=size_bytes,
        digest=digest.hexdigest()[:_DIGEST_LETTERS],
    )


def pack_source(source: Source, target: Path, *, show: Callable[[str], object]) -> None:
    """Make the archive; `show` gets a line from time to time that says how far it has come."""
    progress = Progress("packing the code", source.size_bytes, show=show)
    import tarfile  # only here: every start of the command would pay for it

    # Level 3: source code shrinks little more at 9, and the upload is to this machine.
    with tarfile.open(target, "w:gz", compresslevel=3) as archive:
        for name in source.names:
            path = _find_content(source.folder / name, source.folder)
            archive.add(path, arcname=name, recursive=False)
            progress.add(path.lstat().st_size)


def leads_out(path: Path, folder: Path) -> bool:
    """Whether a path is a link that means something else, or nothing, in a copy of its folder."""
    if not path.is_symlink():
        return False
    target = os.readlink(path)
    inside = os.path.normpath(os.path.join(path.parent.relative_to(folder), target))
    return os.path.isabs(target) or inside.split(os.sep)[0] == os.pardir


def _find_content(path: Path, folder: Path) -> Path:
    """What is packed under the name: for a link out of the folder, the file it leads to."""
    return path.resolve() if leads_out(path, folder) else path


def _name_some(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _walk(folder: Path, rules: _Rules, elsewhere: Collection[Path]) -> Iterator[tuple[Path, bool]]:
    """Files and links, and whether they are ignored.

    Ignored folders, and those that are elsewhere, too, are not entered.
    """
    rules = (*rules, *_read_rules(folder))
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        path, is_folder = Path(entry.path), entry.is_dir(follow_symlinks=False)
        if entry.name in _LEFT_OUT:
            continue
        if _is_ignored(path, rules, is_folder=is_folder):
            yield path, True
        elif is_folder and elsewhere and path.resolve() in elsewhere:
            yield path, False
        elif is_folder:
            yield from _walk(path, rules, elsewhere)
        elif entry.is_file(follow_symlinks=False) or entry.is_symlink():
            yield path, False


def _read_rules(folder: Path) -> _Rules:
    lines: list[str] = []
    for name in _IGNORE_FILES:
        file = folder / name
        if file.is_file():
            lines += file.read_text(errors="surrogateescape").splitlines()
    if not lines:
        return ()
    # Loaded only where there is such a file: it would take a tenth of the command's start.
    from pathspec import GitIgnoreSpec

    return ((folder, GitIgnoreSpec.from_lines(lines)),)


def _read_rules_above(folder: Path) -> _Rules:
    """Those of the folders above, up to the top of the Git repository; none without one."""
    above: list[Path] = []
    for parent in (folder, *folder.parents):
        if parent != folder:
            above.append(parent)
        if (parent / ".git").exists():
            return tuple(rule for each in reversed(above) for rule in _read_rules(each))
    return ()


def _is_ignored(path: Path, rules: _Rules, *, is_folder: bool) -> bool:
    found = False
    for base, spec in rules:
        name = path.relative_to(base).as_posix() + "/" * is_folder
        said = spec.check_file(name).include
        # The last rule that speaks wins, as in Git; a folder's own rules come last.
        found = found if said is None else said
    return found


def _require_script(folder: Path, entry_point: str, names: Collection[str]) -> None:
    if entry_point not in names:
        raise UsageRefused(
            f"the script {entry_point} is left out by .gitignore or .stokerignore",
            fix=f"add a line to {folder / '.stokerignore'}: !/{entry_point}",
        )


def _require_size(folder: Path, size_bytes: int, *, is_large_allowed: bool) -> None:
    if size_bytes > _MOST_BYTES and not is_large_allowed:
        raise UsageRefused(
            f"{folder} has {show_size(size_bytes)} of code, more than {show_size(_MOST_BYTES)}",
            fix="pass data as --channel NAME=FOLDER, leave files out by .stokerignore, "
            "or send all of it: --large-source",
        )


def _add(digest: hashlib._Hash, path: Path, name: str) -> None:
    status = path.lstat()
    # With the mode: a script that became executable is another archive. Without times: these
    # differ between checkouts.
    digest.update(f"{name}\0{status.st_mode:o}\0".encode(errors="surrogateescape"))
    if stat.S_ISLNK(status.st_mode):
        digest.update(os.fsencode(os.readlink(path)))
        return
    with path.open("rb") as file:
        digest.update(hashlib.file_digest(file, "sha256").digest())

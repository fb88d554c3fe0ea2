"""The folders a job leaves: whatever depth and modes it gave them, they are read and removed.

Only once nothing of the job runs any more: nobody changes them meanwhile.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from stoker.host.platform.around.confined import Parts, open_folder, walk

_READ_FILE, _READ_FOLDER, _ALL = 0o400, 0o500, 0o700


def make_readable(base: Path, parts: Parts) -> None:
    """Give the owner the right to read what lies below a folder; links are left alone.

    In a container the job was root, which needs no such right; whoever packs its files does.
    """
    for entry in walk(base, parts):
        needed = _READ_FOLDER if entry.is_folder else _READ_FILE
        mode = stat.S_IMODE(entry.status.st_mode)
        if not entry.is_link and mode & needed != needed:
            with open_folder(base, parts + entry.parts[:-1]) as folder:
                os.chmod(entry.parts[-1], mode | needed, dir_fd=folder)


def remove_tree(folder: Path) -> None:
    """Remove a folder and all that is in it.

    Inner folders are moved to the top before they are emptied: so neither the depth of the stack
    nor the length of a path limits how deep a tree may be.

    Raises:
        OSError: something belongs to somebody else; FileNotFoundError: there is no such folder.
    """
    folder.chmod(_ALL)
    with open_folder(folder, ()) as top:
        while names := os.listdir(top):
            for name in names:
                _remove(name, top)
    folder.rmdir()


def _remove(name: str, top: int) -> None:
    if not _is_folder(name, top):
        os.unlink(name, dir_fd=top)
        return
    os.chmod(name, _ALL, dir_fd=top)
    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
    try:
        for child in os.listdir(inner):
            if _is_folder(child, inner):
                os.chmod(child, _ALL, dir_fd=inner)  # else it could not be moved
                os.rename(child, secrets.token_hex(16), src_dir_fd=inner, dst_dir_fd=top)
            else:
                os.unlink(child, dir_fd=inner)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)


def _is_folder(name: str, above: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode)

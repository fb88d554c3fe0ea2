"""Where the file of an object is: the key itself is the path, wherever a file system can hold it.

What it cannot hold is escaped. A name that begins with `%` is one of these:

%            an empty part of a key: `a//b` is a/%/b, `folder/` is folder/%
%2E  %25x    a part that is `.` or `..`, begins with `%` or has a zero byte, with %XX for bytes
%.a          the object `a` where `a` is a folder, because there is an object `a/b`, too
%+… / %-…    a part of more than 255 bytes: %+ before each piece but the last, which has %-
"""

from __future__ import annotations

import os
from contextlib import suppress
from urllib.parse import unquote_to_bytes

EMPTY = b"%"
NEXT_TO_FOLDER = b"%."
PIECE = b"%+"
LAST_PIECE = b"%-"
_LONGEST = 255  # of a file's name on Linux; a key may have 1024 bytes


def encode_key(key: bytes) -> bytes:
    """The path of an object's file below its bucket."""
    return b"/".join(_encode_part(part) for part in key.split(b"/"))


def encode_next_to_folder(key: bytes) -> bytes:
    """The path of the same object while there is a folder of that name."""
    folder, slash, name = key.rpartition(b"/")
    next_to = _split(NEXT_TO_FOLDER + _escape(name))
    return encode_key(folder) + b"/" + next_to if slash else next_to


def decode_name(name: bytes) -> bytes | None:
    """The part of a key that a name stands for; None if no key leads to that name."""
    if not name.startswith(b"%"):
        return name
    escaped = name.removeprefix(NEXT_TO_FOLDER)
    part = b"" if escaped == EMPTY else unquote_to_bytes(escaped)
    return part if _escape(part) == escaped else None


def place_file(source: bytes, bucket_dir: bytes, key: bytes) -> bytes:
    """Give a file the name of an object, at once; returns its path."""
    path, next_to = encode_key(key), encode_next_to_folder(key)
    try:
        _rename(source, bucket_dir, path, key)
    # There is an object below this key, so its name is a folder's.
    except IsADirectoryError:
        _rename(source, bucket_dir, next_to, key)
        return b"%s/%s" % (bucket_dir, next_to)
    with suppress(OSError):
        os.unlink(b"%s/%s" % (bucket_dir, next_to))
    return b"%s/%s" % (bucket_dir, path)


def _rename(source: bytes, bucket_dir: bytes, path: bytes, key: bytes) -> None:
    target = b"%s/%s" % (bucket_dir, path)
    try:
        os.rename(source, target)
    except FileNotFoundError:
        _make_folders(bucket_dir, path)
        os.rename(source, target)
    # An object `a` is where `a/b` needs a folder.
    except NotADirectoryError:
        _make_room(bucket_dir, key)
        _make_folders(bucket_dir, path)
        os.rename(source, target)


def _make_folders(bucket_dir: bytes, path: bytes) -> None:
    folder = bucket_dir
    for name in path.split(b"/")[:-1]:
        folder = b"%s/%s" % (folder, name)
        with suppress(FileExistsError):
            os.mkdir(folder)


def _make_room(bucket_dir: bytes, key: bytes) -> None:
    """An object whose file is in the way of a folder gets its other name."""
    parts = key.split(b"/")
    for count in range(1, len(parts)):
        above = b"/".join(parts[:count])
        file = b"%s/%s" % (bucket_dir, encode_key(above))
        if os.path.isfile(file):
            next_to = encode_next_to_folder(above)
            _make_folders(bucket_dir, next_to)
            os.rename(file, b"%s/%s" % (bucket_dir, next_to))


def _encode_part(part: bytes) -> bytes:
    return _split(_escape(part))


def _escape(part: bytes) -> bytes:
    if not part:
        return EMPTY
    if part in (b".", b"..") or part.startswith(b"%") or b"\0" in part:
        rest = part[1:].replace(b"%", b"%25").replace(b"\0", b"%00")
        return b"%%%02X%s" % (part[0], rest)
    return part


def _split(name: bytes) -> bytes:
    if len(name) <= _LONGEST:
        return name
    size = _LONGEST - len(PIECE)
    pieces = [name[start : start + size] for start in range(0, len(name), size)]
    return b"/".join([*(PIECE + piece for piece in pieces[:-1]), LAST_PIECE + pieces[-1]])

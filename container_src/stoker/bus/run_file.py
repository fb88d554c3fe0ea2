"""`output/data/stoker/run.json`: what a job was, and what it was made from.

    {"schema": "stoker.run/1", "job": "a-job", "arn": "arn:…", "status": "Completed",
     "message": "", "exit_code": 0, "started": 1763300000.5, "ended": 1763300900.1,
     "hyperparameters": {"lr": "0.1"}, "inputs": {"train": {"uri": "s3://…"}},
     "outputs": {"model": {"objects": 2, "bytes": 1024, "hash": "sha256:…"}},
     "metrics": {"loss": {"count": 2, "min": 0.1, "max": 0.5, "last": 0.1, "step": 9}},
     "metrics_file": "metrics.jsonl", "image": {"name": "…"}, "source_code": {…},
     "git_commit": "…", "git_dirty": false, "python": "3.11.9", "packages": {"torch": "2.13.0"}}

It leaves the container with the job's output, so a job of the cloud brings it home as well.
"""

from __future__ import annotations

import os
from itertools import islice

from stoker.contract.quick_json import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import Any

SCHEMA = "stoker.run/1"
FILE_NAME = "run.json"
FOLDER = "stoker"
"""Below output/data."""

MOST_BYTES = 4 << 20
GIT_VARIABLE = "STOKER_GIT_COMMIT"
"""Of the request's environment: the commit the code is from, with `-dirty` behind it if it was
changed since."""

RECORDED_VARIABLE = "STOKER_RECORDED_URI"
"""The tracking server that reads the job's log by itself: what `job.log` prints is not sent."""

MOVE_TAG = "stoker.experiment"
"""Set on a run of the local platform that is in no experiment: it moves to the one named."""

METRICS_VARIABLE = "SAGEMAKER_METRICS_DIRECTORY"
METRICS_FOLDER = "output/metrics/sagemaker"
"""Below /opt/ml: there smexperiments' tracker writes its metrics."""

_MOST_FILES = 20_000  # a channel may have millions
_MOST_HASHED_BYTES = 64 << 20  # larger inputs are known by names, sizes and times
_BLOCK_BYTES = 1 << 20


def parse_git(text: str) -> dict[str, str | bool]:
    """What the variable says; nothing if it is not a commit.

    Example:
        >>> parse_git("0123abc-dirty")
        {'git_commit': '0123abc', 'git_dirty': True}
    """
    if not text:
        return {}
    import re  # 4 ms, which a launcher without a commit does not pay

    found = re.fullmatch(r"([0-9a-f]{7,64})(-dirty)?", text)
    return {"git_commit": found[1], "git_dirty": bool(found[2])} if found else {}


def parse_run_file(content: bytes) -> dict[str, Any]:
    """The file's object.

    Raises:
        ValueError: it is damaged, or another version's.
    """
    try:
        found = loads(content.decode())
    # Not a ValueError, and the file may come from anywhere: callers expect one kind of error.
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise ValueError(f"its schema is not {SCHEMA}")
    return found


def hash_folder(folder: str | Path) -> dict[str, Any]:
    """Number and size of a folder's files, and one hash over them.

    The hash is over names and contents; in a large folder over names, sizes and times, which
    `hashed` then says.
    """
    import hashlib  # 5 ms, which only a job that is over pays

    files = list(_list_files(str(folder)))
    size_bytes = sum(status.st_size for _, status in files)
    found: dict[str, Any] = {"objects": len(files), "bytes": size_bytes}
    is_read = size_bytes <= _MOST_HASHED_BYTES
    digest = hashlib.sha256()
    for name, status in files:
        # NUL ends each part, as no name contains it: two different trees never give the same
        # bytes.
        digest.update(f"{name}\0{status.st_size}\0".encode("utf-8", "surrogateescape"))
        if is_read:
            digest.update(_hash_file(f"{folder}/{name}"))
        else:
            digest.update(str(status.st_mtime_ns).encode())
    if not is_read:
        found["hashed"] = "names, sizes and times"
    if len(files) == _MOST_FILES:
        found["hashed"] = f"the first {_MOST_FILES} files"
    return {**found, "hash": f"sha256:{digest.hexdigest()}"}


def hash_listing(objects: Iterable[tuple[str, str, int]]) -> dict[str, Any]:
    """Number and size of objects on S3, and one hash over what S3 lists: nothing is read.

    Args:
        objects: key, ETag and size of each, in the order of keys; the first 20,000 count.
    """
    import hashlib

    digest, count, size_bytes = hashlib.sha256(), 0, 0
    for key, etag, size in islice(objects, _MOST_FILES):
        digest.update(f"{key}\0{etag}\n".encode())
        count, size_bytes = count + 1, size_bytes + size
    found: dict[str, Any] = {"objects": count, "bytes": size_bytes}
    if count == _MOST_FILES:
        found["hashed"] = f"the first {_MOST_FILES} objects"
    return {**found, "hash": f"sha256:{digest.hexdigest()}"}


def _list_files(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    count = 0
    for place, folders, names in os.walk(folder):
        # os.walk descends in this order; without it the hash would depend on the file system.
        folders.sort()
        for name in sorted(names):
            path = os.path.join(place, name)
            try:
                status = os.stat(path)
            except OSError:
                continue
            if os.path.isfile(path):  # no pipe, which would wait for a writer
                yield os.path.relpath(path, folder), status
                count += 1
            if count == _MOST_FILES:
                return


def _hash_file(path: str) -> bytes:
    import hashlib

    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
    except OSError:
        return b""
    return digest.digest()

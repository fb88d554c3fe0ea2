"""Which objects a channel or a folder consists of, and transferring several at a time."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from stoker.errors import HostError
from stoker.platform.data.confined import Parts, parse_parts
from stoker.platform.data.failures import DownloadFailed
from stoker.platform.data.storage import S3Uri, Storage, parse_uri
from stoker.platform.model.request import ChannelSource


@dataclass(frozen=True, slots=True)
class ChannelObject:
    """One object of a channel."""

    uri: S3Uri
    parts: Parts
    """Its path below the channel's folder."""

    size_bytes: int = 0
    """0 if it is not known: a manifest does not tell."""


def list_objects(channel: ChannelSource, storage: Storage) -> list[ChannelObject]:
    """All objects of a channel, over all pages, in the order of keys or of the manifest.

    Raises:
        DownloadFailed: there are none, or they cannot be in one folder.
    """
    if channel.data_type == "ManifestFile":
        named = [(entry.uri, entry.name, 0) for entry in read_manifest(channel.uri, storage)]
    elif channel.data_type == "S3Prefix":
        named = _list_prefix(parse_uri(channel.uri), storage)
    else:
        raise DownloadFailed(
            f"channel {channel.name!r}: {channel.data_type} is not a list of objects",
            fix="use an augmented manifest with the input mode Pipe",
        )
    if not named:
        # The service's own words, which people search for.
        raise DownloadFailed(
            f"No S3 objects found under S3 URL {channel.uri!r} given in input data source of"
            f" channel {channel.name!r}",
            fix="ensure that the bucket exists and that objects exist under that S3 prefix:"
            f" aws s3 ls {channel.uri}",
        )
    objects = [ChannelObject(uri, read_parts(uri, name), size) for uri, name, size in named]
    _require_one_tree(objects)
    return objects


def list_below(prefix: S3Uri, storage: Storage) -> list[tuple[S3Uri, str, int]]:
    """The objects of a folder, names in it, sizes in bytes; `x/code2` is not below `x/code`."""
    start = prefix if prefix.key.endswith("/") or not prefix.key else prefix.join("")
    found = ((stored, stored.uri.name_below(prefix)) for stored in storage.list(start))
    # A key with a slash at its end is how consoles show an empty folder.
    return [
        (stored.uri, name, stored.size_bytes)
        for stored, name in found
        if name and not name.endswith("/")
    ]


def read_parts(uri: S3Uri, name: str) -> Parts:
    """The path of an object below its folder.

    Raises:
        DownloadFailed: it would leave the folder.
    """
    parts = parse_parts(name)
    if parts is None:
        raise DownloadFailed(
            f"{uri} cannot become a file of the channel: {name!r} is not a path below a folder",
            fix="copy the object to a key without '..', '.', '//' or a '/' at its start",
        )
    return parts


def _list_prefix(prefix: S3Uri, storage: Storage) -> list[tuple[S3Uri, str, int]]:
    """What is below the prefix as a folder, or that object; else what begins with it."""
    below = list_below(prefix, storage)
    if prefix.key and not prefix.key.endswith("/"):
        folder = S3Uri(prefix.bucket, prefix.key.rpartition("/")[0])
        if not below:
            matching = list(storage.list(prefix))
            exact = [stored for stored in matching if stored.uri == prefix]
            below = [
                (stored.uri, stored.uri.name_below(folder) or "", stored.size_bytes)
                for stored in exact or matching
            ]
    return [found for found in below if not found[1].endswith("/")]


def _require_one_tree(objects: Iterable[ChannelObject]) -> None:
    """S3 can have both `a` and `a/b`; a folder cannot. Two objects may not be one file, either."""
    files: dict[Parts, S3Uri] = {}
    for found in objects:
        other = files.setdefault(found.parts, found.uri)
        if other != found.uri:
            raise _clash(other, found.uri)
    for parts, uri in files.items():
        for length in range(1, len(parts)):
            if parts[:length] in files:
                raise _clash(files[parts[:length]], uri)


def _clash(one: S3Uri, other: S3Uri) -> DownloadFailed:
    return DownloadFailed(
        f"{one} and {other} cannot both be files of one channel: one has the path that the other"
        " needs for a folder or the same file",
        fix="rename one of the two objects",
    )


_REFERENCE = "-ref"
_MANIFEST_FIX = 'write [{"prefix": "s3://bucket/folder/"}, "file-1", "file-2"]'
_AUGMENTED_FIX = "write one JSON object per line, each with every name of AttributeNames"


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One object that a manifest names."""

    uri: S3Uri
    name: str
    """What follows the prefix: its path in the channel."""


def read_manifest(uri: str, storage: Storage) -> list[ManifestEntry]:
    """The objects that a manifest names, each once.

    Raises:
        DownloadFailed: it is not there, or not a manifest.
    """
    elements = _parse_json(storage.read(uri), uri)
    match elements:
        case [{"prefix": str(prefix)}, *names] if prefix and all(
            isinstance(name, str) for name in names
        ):
            return [
                ManifestEntry(_parse_place(f"{prefix}{name}", uri), name)
                for name in dict.fromkeys(names)
            ]
    raise DownloadFailed(f"{uri} is not a manifest: {str(elements)[:200]}", fix=_MANIFEST_FIX)


def read_augmented_manifest(
    uri: str, attributes: tuple[str, ...], storage: Storage
) -> list[tuple[S3Uri | bytes, ...]]:
    """The samples of an augmented manifest: per attribute an object's place, or the value itself.

    Raises:
        DownloadFailed: it is not there, a line is not JSON, or an attribute is missing.
    """
    return list(_read_samples(uri, attributes, storage.read(uri)))


def _read_samples(
    uri: str, attributes: tuple[str, ...], content: bytes
) -> Iterator[tuple[S3Uri | bytes, ...]]:
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        sample = _parse_json(line, f"{uri}, line {number}")
        if not isinstance(sample, dict):
            raise DownloadFailed(f"{uri}, line {number} is not a JSON object", fix=_AUGMENTED_FIX)
        missing = [name for name in attributes if name not in sample]
        if missing:
            raise DownloadFailed(
                f"{uri}, line {number} has no {', '.join(missing)}, but: {', '.join(sample)}",
                fix=_AUGMENTED_FIX,
            )
        yield tuple(_read_value(name, sample[name], uri) for name in attributes)


def _read_value(name: str, value: object, uri: str) -> S3Uri | bytes:
    if name.endswith(_REFERENCE):
        return _parse_place(str(value), uri)
    return (value if isinstance(value, str) else json.dumps(value)).encode()


def _parse_json(content: bytes, place: str) -> Any:  # noqa: ANN401 - what a file holds
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DownloadFailed(f"{place} is not JSON: {error}", fix=_MANIFEST_FIX) from error


def _parse_place(place: str, manifest: str) -> S3Uri:
    try:
        return parse_uri(place)
    except HostError as error:
        raise DownloadFailed(f"{manifest}: {error.message}", fix=error.fix) from error


Task = TypeVar("Task")

_WORKERS = 8


def run_all(
    tasks: Iterable[Task], act: Callable[[Task], None], *, workers: int = _WORKERS
) -> None:
    """Act on each task, in a few threads; the first failure ends all of them and is raised.

    Tasks are taken one by one as a thread gets free: millions of them cost no memory.
    """
    iterator = iter(tasks)
    lock = threading.Lock()
    stopped = threading.Event()

    def work() -> None:
        try:
            while not stopped.is_set():
                with lock:
                    # A generator may not be entered by two threads at once.
                    task = next(iterator)
                act(task)
        except StopIteration:
            return
        except BaseException:
            stopped.set()
            raise

    with ThreadPoolExecutor(workers, thread_name_prefix="transfer") as pool:
        futures = [pool.submit(work) for _ in range(workers)]
    for future in futures:
        future.result()

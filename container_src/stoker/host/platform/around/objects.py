"""What a channel is made of: objects in S3, each with its path in the channel."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stoker.host.platform.around.confined import Parts, parse_parts
from stoker.host.platform.around.failures import DownloadFailed
from stoker.host.platform.around.manifests import read_manifest
from stoker.host.platform.around.s3_uri import S3Uri, parse_uri
from stoker.host.platform.around.storage import Storage
from stoker.host.platform.request import ChannelSource


@dataclass(frozen=True, slots=True)
class ChannelObject:
    """One object of a channel."""

    uri: S3Uri
    parts: Parts
    """Its path below the channel's folder."""


def list_objects(channel: ChannelSource, storage: Storage) -> list[ChannelObject]:
    """All objects of a channel, over all pages, in the order of keys or of the manifest.

    Raises:
        DownloadFailed: there are none, or they cannot lie in one folder.
    """
    if channel.data_type == "ManifestFile":
        named = [(entry.uri, entry.name) for entry in read_manifest(channel.uri, storage)]
    elif channel.data_type == "S3Prefix":
        named = _list_prefix(parse_uri(channel.uri), storage)
    else:
        raise DownloadFailed(
            f"channel {channel.name!r}: {channel.data_type} is no list of objects",
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
    objects = [ChannelObject(uri, read_parts(uri, name)) for uri, name in named]
    _require_one_tree(objects)
    return objects


def list_below(prefix: S3Uri, storage: Storage) -> list[tuple[S3Uri, str]]:
    """The objects of a folder with their names in it; `x/code2` is not below `x/code`."""
    start = prefix if prefix.key.endswith("/") or not prefix.key else prefix.join("")
    found = ((stored.uri, stored.uri.name_below(prefix)) for stored in storage.list(start))
    # A key with a slash at its end is how consoles show an empty folder.
    return [(uri, name) for uri, name in found if name and not name.endswith("/")]


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


def _list_prefix(prefix: S3Uri, storage: Storage) -> list[tuple[S3Uri, str]]:
    """What lies below the prefix as a folder, or the very object; else what begins with it."""
    below = list_below(prefix, storage)
    if prefix.key and not prefix.key.endswith("/"):
        folder = S3Uri(prefix.bucket, prefix.key.rpartition("/")[0])
        if not below:
            matching = [stored.uri for stored in storage.list(prefix)]
            exact = [uri for uri in matching if uri == prefix]
            below = [(uri, uri.name_below(folder) or "") for uri in exact or matching]
    return [(uri, name) for uri, name in below if not name.endswith("/")]


def _require_one_tree(objects: Iterable[ChannelObject]) -> None:
    """S3 has `a` beside `a/b`; a folder has not. Two objects may not be one file, either."""
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
        f"{one} and {other} cannot both be files of one channel: one stands where the other"
        " needs a folder or the same file",
        fix="rename one of the two objects",
    )

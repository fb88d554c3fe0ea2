"""Lists of objects that are objects themselves: manifest and augmented manifest files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from stoker.errors import HostError
from stoker.host.platform.around.failures import DownloadFailed
from stoker.host.platform.around.s3_uri import S3Uri, parse_uri
from stoker.host.platform.around.storage import Storage

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
    raise DownloadFailed(f"{uri} is no manifest: {str(elements)[:200]}", fix=_MANIFEST_FIX)


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
            raise DownloadFailed(f"{uri}, line {number} is no JSON object", fix=_AUGMENTED_FIX)
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

"""Checkpoints of plain NumPy arrays: the same folders and files, made without torch."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from stoker.checkpoints import manifest
from stoker.checkpoints.checksums import PREFERRED, checksums_of
from stoker.checkpoints.draft import Draft
from stoker.checkpoints.manifest import Manifest, Shard, manifest_text
from stoker.checkpoints.store import Checkpoint, Store, make_name
from stoker.errors import CheckpointFailed

_FILE = "rank00000.safetensors"
_METADATA = "stoker"
_PLAIN = "biuf"

Array = np.ndarray[Any, Any]


def write_arrays(
    store: Store,
    arrays: Mapping[str, Array],
    state: Mapping[str, Any],
    about: Manifest,
    *,
    keep: int,
) -> str:
    """Writes one checkpoint, whole or not at all, and removes what `keep` leaves over.

    Args:
        store: where to.
        arrays: by name.
        state: whatever else is JSON.
        about: the manifest, still without its file.
        keep: how many of the newest to keep in addition to the best.

    Returns:
        Its name.

    Raises:
        CheckpointFailed: it could not be written.
    """
    # The fields of a rank's file that torch wrote (shards.parse_head): one format, one
    # verification.
    rest = {"own": {}, "pieces": {}, "state": dict(state)}
    content = save(
        {name: _storable(array) for name, array in arrays.items()},
        metadata={_METADATA: json.dumps(rest)},
    )
    try:
        name = _publish(store, content, about)
        store.prune(keep=keep, trust=name)
    except OSError as error:
        raise CheckpointFailed(
            f"the checkpoint of step {about.step} could not be written: {error.strerror} "
            f"({store.folder})",
            fix="the checkpoint folder must be writable and have room: raise volume_size, or keep "
            "fewer (keep=1)",
        ) from error
    return name


def _publish(store: Store, content: bytes, about: Manifest) -> str:
    draft = Draft(store.folder, secrets.token_hex(6))
    try:
        _write_durably(f"{draft.path}/{_FILE}", content)
        checksums = tuple(checksums_of(memoryview(content), PREFERRED))
        shard = Shard(name=_FILE, size_bytes=len(content), checksums=checksums)
        about = replace(about, shards=(shard,), checksum=PREFERRED)
        draft.write(manifest.NAME, manifest_text(about))
        # Another writer may have taken the number meanwhile.
        while not draft.publish(name := make_name(store.next_serial(), about.step)):
            pass
    except BaseException:
        draft.discard()
        raise
    return name


def read_arrays(checkpoint: Checkpoint) -> tuple[dict[str, Array], dict[str, Any]]:
    """The arrays and the rest of a checkpoint that `Store.newest` has verified.

    Raises:
        ValueError: it is not one of arrays.
    """
    with open(f"{checkpoint.path}/{_FILE}", "rb") as file:
        content = file.read()
    # safetensors: 8 bytes with the length of the header, then the header as JSON.
    head_bytes = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:head_bytes])
    state = json.loads(header["__metadata__"][_METADATA])["state"]
    return load(content), state


def _storable(array: Array) -> Array:
    # bfloat16 and float8 are not NumPy's own: float32 holds each of their values exactly.
    plain = array if array.dtype.kind in _PLAIN else array.astype(np.float32)
    # ascontiguousarray() makes one dimension of none: a scalar needs its shape back.
    return np.ascontiguousarray(plain).reshape(plain.shape)


def _write_durably(path: str, content: bytes) -> None:
    with open(path, "xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())

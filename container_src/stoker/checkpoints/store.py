"""A folder of checkpoints: what is in it, what is valid, what may be removed. Needs no torch.

    000012-step-480/
        rank00000.safetensors      one file per rank that has something to say
        manifest.json              sizes and checksums of the files; written last

The first number counts the saves. It alone decides which is the newest: clocks go back, and so do
steps when a run starts again.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace

from stoker.checkpoints import draft, manifest
from stoker.checkpoints.checksums import checksums_of_file
from stoker.checkpoints.manifest import Manifest, ManifestInvalid, parse_manifest
from stoker.checkpoints.upload_state import is_ignored, is_marker, is_uploading, names_in
from stoker.contract.files import read_regular

_NAME = re.compile(r"(\d{6,18})-step-(\d{1,18})", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """One checkpoint as it is on the disk, valid or not."""

    path: str
    serial: int
    step: int
    manifest: Manifest | None = None
    problem: str = ""
    """Why it cannot be used; empty if nothing is known against it."""

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    @property
    def is_best(self) -> bool:
        return bool(self.manifest and self.manifest.metric and self.manifest.metric.is_best)


class Store:
    """Reads and cleans a folder of checkpoints.

    Example:
        >>> for checkpoint in Store("/opt/ml/checkpoints").read_all():
        ...     print(checkpoint.name, checkpoint.problem or "valid")
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = os.path.abspath(folder)

    def read_all(self) -> list[Checkpoint]:
        """Every checkpoint, oldest first, damaged ones with their `problem`.

        Looks at names, manifests and sizes; `verify` reads the rest.
        """
        found = [self.look_at(name) for name in names_in(self.folder) if _NAME.fullmatch(name)]
        return sorted((c for c in found if c is not None), key=lambda c: (c.serial, c.step))

    def newest(self) -> Checkpoint | None:
        """The newest one whose every byte is as it was written."""
        valid = (c for c in reversed(self.read_all()) if not c.problem)
        return next((c for c in valid if not self.verify(c)), None)

    def best(self) -> Checkpoint | None:
        """The newest one that was the best of its run when it was saved."""
        return next((c for c in reversed(self.read_all()) if c.is_best and not c.problem), None)

    def foreign(self) -> list[str]:
        """Names of what others have put here: a script's own files, for one."""
        return [
            name
            for name in names_in(self.folder)
            if not (_NAME.fullmatch(name) or is_marker(name) or is_ignored(name))
        ]

    def look_at(self, name: str) -> Checkpoint | None:
        """One checkpoint; None if there is none of this name, or it has just gone."""
        match = _NAME.fullmatch(name)
        path = f"{self.folder}/{name}"
        if not match or not os.path.isdir(path):
            return None
        seen = Checkpoint(path=path, serial=int(match[1]), step=int(match[2]))
        try:
            found = parse_manifest(read_regular(f"{path}/{manifest.NAME}").decode())
            return replace(seen, manifest=found, problem=_missing(path, found))
        except FileNotFoundError:
            # Read last: a checkpoint that is removed while we look is not a damaged one.
            is_there = os.path.isdir(path)
            return replace(seen, problem="it has no manifest") if is_there else None
        except (ManifestInvalid, OSError, UnicodeDecodeError) as error:
            return replace(seen, problem=str(error))

    def verify(self, checkpoint: Checkpoint) -> str:
        """Reads every byte. Returns what is wrong, or an empty text.

        Raises:
            CheckpointFailed: its kind of checksum is not installed here.
        """
        if checkpoint.manifest is None or checkpoint.problem:
            return checkpoint.problem or "it has no manifest"
        for shard in checkpoint.manifest.shards:
            try:
                path = f"{checkpoint.path}/{shard.name}"
                found = checksums_of_file(path, checkpoint.manifest.checksum)
            except OSError as error:
                return f"{shard.name} cannot be read: {error.strerror}"
            if tuple(found) != shard.checksums:
                return f"{shard.name} is damaged: its checksum does not fit"
        return ""

    def prune(self, *, keep: int, dry_run: bool = False, trust: str = "") -> list[Checkpoint]:
        """Removes all but the newest `keep` and the best.

        Whatever is asked for, the newest verified one stays, and so does one that is being
        uploaded: to remove it would cancel the upload.

        Args:
            keep: how many of the newest valid ones stay; at least 1.
            dry_run: only say what would go.
            trust: a name that needs no proof, having just been written.

        Returns:
            Those removed, oldest first.
        """
        everything = self.read_all()
        kept = self._kept(everything, max(1, keep), trust)
        if not kept:
            return []
        newest = max(checkpoint.serial for checkpoint in kept)
        names = {checkpoint.name for checkpoint in kept}
        doomed = [
            c
            for c in everything
            # A damaged one goes only when a newer one has taken its place.
            if c.name not in names and c.serial < newest and not is_uploading(c.path)
        ]
        for checkpoint in [] if dry_run else doomed:
            draft.remove_whole(checkpoint.path)
        return doomed

    def _kept(self, everything: list[Checkpoint], keep: int, trust: str) -> list[Checkpoint]:
        valid = [c for c in reversed(everything) if not c.problem]
        kept = valid[:keep] + [c for c in valid[keep:] if c.is_best][:1]
        if any(c.name == trust for c in kept):
            return kept
        # One that is proved stays, however many newer ones merely look valid.
        proved = next((c for c in valid if not self.verify(c)), None)
        return [*kept, proved] if proved else []

    def sweep(self) -> list[str]:
        """Removes what writers that died have left half-written; returns the names."""
        return draft.sweep(self.folder)

    def next_serial(self) -> int:
        """One more than any checkpoint here has, valid or not."""
        matches = (_NAME.fullmatch(name) for name in names_in(self.folder))
        return 1 + max((int(match[1]) for match in matches if match), default=0)


def make_name(serial: int, step: int) -> str:
    """The folder's name of one checkpoint."""
    return f"{serial:06d}-step-{step}"


def _missing(path: str, found: Manifest) -> str:
    """What quick looks tell: files that are not there, or not whole."""
    for shard in found.shards:
        try:
            size_bytes = os.stat(f"{path}/{shard.name}").st_size
        except OSError:
            return f"{shard.name} is missing"
        if size_bytes != shard.size_bytes:
            return f"{shard.name} has {size_bytes} bytes instead of {shard.size_bytes}"
    return ""

"""Saving in the background: copy, write, name, clean up. The loop waits only if it must."""

from __future__ import annotations

import os
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, replace

from stoker.checkpoints import manifest
from stoker.checkpoints.checksums import PIECE_BYTES, PREFERRED, checksum_named, hexadecimal
from stoker.checkpoints.draft import Draft
from stoker.checkpoints.group import Group
from stoker.checkpoints.log import warn
from stoker.checkpoints.manifest import Manifest, Shard, manifest_text
from stoker.checkpoints.snapshot import Snapshot
from stoker.checkpoints.spare import Spare
from stoker.checkpoints.staging import Staging
from stoker.checkpoints.store import Store, make_name
from stoker.checkpoints.upload_state import is_uploading
from stoker.errors import CheckpointFailed, StokerError
from stoker.storage.direct_file import DirectFile, whole_blocks


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved:
    """A checkpoint that is on the disk."""

    name: str
    step: int
    seconds: float
    """From the call to durable."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Written:
    """What one rank tells the others about its part."""

    shard: Shard | None = None
    serial: int = 0
    """The lowest number that is free on its disk."""
    is_sharded: bool = False
    trouble: str = ""
    fix: str = ""
    """What helps against it, where that is known."""


class Saver:
    """Writes one checkpoint at a time; the next waits for the one before."""

    def __init__(self, store: Store, group: Group, *, token: str, keep: int) -> None:
        """Args:
        store: where to.
        group: the ranks that write together; used by this object's own thread only.
        token: for temporary names; the same on all ranks, and on no other job.
        keep: how many of the newest to keep in addition to the best.
        """
        self.staging = Staging()
        self.last: Saved | None = None
        self._store = store
        self._group = group
        self._token = token
        self._keep = keep
        self._file_name = f"rank{group.rank:05d}.safetensors"
        self._spare = Spare(store.folder, f"{token}-{group.rank}", self._file_name)
        self._count = 0
        self._process = os.getpid()
        # Its threads are joined when the interpreter exits: nothing half-written is left.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="stoker-checkpoint")
        self._snapshot: Snapshot | None = None
        self._pending: Future[Saved] | None = None
        self._touching: Future[None] | None = None

    def prepare(self, size_bytes: int) -> None:
        """Makes the staging memory in the background, before it is needed."""
        self._touching = self._thread.submit(self.staging.reserve, size_bytes)

    @property
    def is_prepared(self) -> bool:
        """Whether the memory is there, or being made."""
        return self._touching is not None or self._count > 0

    def start(self, snapshot: Snapshot, about: Manifest) -> None:
        """Begins to save; returns when only optimizer steps must still be held back.

        Raises:
            CheckpointFailed: the save before this one went wrong, or this is a forked child.
        """
        if self._is_in_a_child:
            raise CheckpointFailed(
                "a forked process cannot save through the session of its parent",
                fix="open stoker.checkpoints in the process that trains, with a folder of its own",
            )
        # One copy of the state in memory, never two: the save before has to be durable first.
        self.finish()
        if self._touching is not None:
            self._touching.result()
        started = time.monotonic()
        self.staging.reserve(whole_blocks(snapshot.layout.size_bytes))
        snapshot.copy_early(self.staging)
        self._count += 1
        self._pending = self._thread.submit(self._save, snapshot, about, started)
        self._snapshot = snapshot  # last: no caller must wait for a copy that was never begun

    def wait_for_copy(self) -> None:
        """Returns when the state may change again."""
        if self._snapshot is not None and not self._is_in_a_child:
            self._snapshot.wait()
            self._snapshot = None

    @property
    def is_failed(self) -> bool:
        """Whether `finish` would raise, without waiting."""
        pending = self._pending
        return pending is not None and pending.done() and pending.exception() is not None

    def finish(self) -> Saved | None:
        """Waits until the last save is durable, and returns it.

        Raises:
            CheckpointFailed: it went wrong.
        """
        pending = self._pending
        if pending is not None and not self._is_in_a_child:
            wait([pending])  # who is interrupted here, by Ctrl-C, has a save under way still
            self._pending = None
            self.last = pending.result()
        return self.last

    def close(self) -> None:
        """Lets the thread end; what was begun is finished first."""
        if not self._is_in_a_child:
            self._thread.shutdown()
            self._spare.drop()

    @property
    def _is_in_a_child(self) -> bool:
        """Whether the script has forked: the thread, and what it writes, stayed behind."""
        return os.getpid() != self._process

    def _save(self, snapshot: Snapshot, about: Manifest, started: float) -> Saved:
        draft, written = self._write(snapshot)
        # Reached by every rank, whatever happened to it: one that raised before would leave the
        # others in the collective for ever.
        told = self._group.gather(written)
        troubles = [f"rank {i}: {w.trouble}" for i, w in enumerate(told) if w.trouble]
        if draft is None or troubles:
            if draft is not None:
                draft.discard()
            fix = next((w.fix for w in told if w.fix), "")
            raise _failed(about.step, "; ".join(troubles) or written.trouble, fix=fix)
        shards = tuple(w.shard for w in told if w.shard is not None)
        is_sharded = any(w.is_sharded for w in told)
        about = replace(about, shards=shards, checksum=PREFERRED, is_sharded=is_sharded)
        name = self._publish(draft, about, max(w.serial for w in told))
        return Saved(name=name, step=about.step, seconds=time.monotonic() - started)

    def _write(self, snapshot: Snapshot) -> tuple[Draft | None, _Written]:
        """Writes this rank's file. Never raises: the other ranks wait for an answer."""
        draft = None
        try:
            # First, and by itself: an optimizer may wait for it, and a second thread that writes
            # meanwhile would take more of caches and memory from the training.
            snapshot.copy_late(self.staging)
            draft = Draft(self._store.folder, f"{self._token}-{self._count}")
            shard = self._write_shard(snapshot.layout.size_bytes, draft)
            serial = self._store.next_serial()
            return draft, _Written(shard=shard, serial=serial, is_sharded=snapshot.is_sharded)
        except StokerError as error:
            return draft, _Written(trouble=error.message, fix=error.fix)
        except OSError as error:
            self._spare.drop()  # on a full disk the next save can use the room
            return draft, _Written(trouble=f"{error.strerror} ({self._store.folder})")
        except Exception as error:  # an internal error must not leave the other ranks waiting
            return draft, _Written(trouble=repr(error))
        finally:
            snapshot.release()

    def _write_shard(self, size_bytes: int, draft: Draft) -> Shard:
        path = f"{draft.path}/{self._file_name}"
        self._spare.hand_to(path)
        memory = self.staging.memory(whole_blocks(size_bytes))
        checksums = _write_in_pieces(path, memory, size_bytes)
        return Shard(name=self._file_name, size_bytes=size_bytes, checksums=checksums)

    def _publish(self, draft: Draft, about: Manifest, serial: int) -> str:
        """The leader names the checkpoint; the first rank of each other host does as it did."""
        decided: tuple[str, list[str], str] = ("", [], "")
        if self._group.is_leader:
            decided = self._publish_first(draft, about, serial)
        # The leader's choice: each host removes the same checkpoints, as far as they are not
        # uploading.
        name, doomed, trouble = self._group.share(decided)
        if trouble:
            draft.discard()
            raise _failed(about.step, trouble)
        if self._group.is_leader:
            return name
        if self._group.is_local_leader:
            if not draft.publish(name):
                raise _failed(about.step, f"{name} is taken on this host alone")
            for old in (f"{self._store.folder}/{name}" for name in doomed):
                if not is_uploading(old):
                    self._spare.remove(old)
        else:
            draft.close()
        return name

    def _publish_first(
        self, draft: Draft, about: Manifest, serial: int
    ) -> tuple[str, list[str], str]:
        try:
            draft.write(manifest.NAME, manifest_text(about))
            # Another writer may have taken the number meanwhile.
            while not draft.publish(make_name(serial, about.step)):
                serial = max(serial + 1, self._store.next_serial())
        except OSError as error:
            return "", [], f"{error.strerror} ({self._store.folder})"
        return make_name(serial, about.step), self._prune(make_name(serial, about.step)), ""

    def _prune(self, name: str) -> list[str]:
        """Names of what was removed. If something stays, the save has not failed."""
        try:
            doomed = self._store.prune(keep=self._keep, trust=name, dry_run=True)
            for checkpoint in doomed:
                self._spare.remove(checkpoint.path)
            return [checkpoint.name for checkpoint in doomed]
        except (OSError, StokerError) as error:
            warn(f"old checkpoints stay: {error}")
            return []


def _write_in_pieces(path: str, memory: memoryview, size_bytes: int) -> tuple[str, ...]:
    """Writes memory to a file, durably, and returns the checksum of each of its pieces.

    One piece at a time and all in the calling thread: the kernel cuts a piece into enough requests
    to keep a disk busy, and more threads would take more of caches and memory from the training.
    """
    checksum_of = checksum_named(PREFERRED)
    checksums = []
    with closing(DirectFile(path, mode=0o644)) as file:
        for start in range(0, size_bytes, PIECE_BYTES):
            end = min(start + PIECE_BYTES, size_bytes)
            checksums.append(hexadecimal(checksum_of(memory[start:end])))
            file.write(memory[start : whole_blocks(end)], start)
        # Whole blocks were written, and the file may have been a longer checkpoint's.
        file.end(size_bytes)
        file.sync()
    return tuple(checksums)


def _failed(step: int, trouble: str, *, fix: str = "") -> CheckpointFailed:
    if any(text in trouble for text in ("No space left", "quota")):
        fix = "give the job a larger volume (volume_size), or keep fewer: checkpoints(…, keep=1)"
    return CheckpointFailed(
        f"the checkpoint of step {step} could not be written: {trouble}",
        fix=fix
        or "look at the checkpoint folder: it must be writable, and no other process may clean it",
    )

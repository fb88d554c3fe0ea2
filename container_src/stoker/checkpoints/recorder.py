"""What a run writes down and takes up again: its parts, its place, its random numbers."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from stoker.checkpoints.draft import Draft
from stoker.checkpoints.group import Group
from stoker.checkpoints.log import say, warn
from stoker.checkpoints.loop import Loop
from stoker.checkpoints.manifest import Manifest, Metric
from stoker.checkpoints.parts import Parts
from stoker.checkpoints.progress import Progress, differences
from stoker.checkpoints.ranks import make_group
from stoker.checkpoints.resume import Resume, Resumed
from stoker.checkpoints.saver import Saved, Saver
from stoker.checkpoints.snapshot import Snapshot
from stoker.checkpoints.store import Store
from stoker.contract.files import now_text
from stoker.contract.job import Job
from stoker.errors import CheckpointFailed, CheckpointMismatch, StokerError


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What a script may choose; see `open_session`."""

    keep: int
    resume: bool
    if_changed: Literal["warn", "refuse"]
    config: Mapping[str, str]
    overlap: bool


class CheckpointRecorder:
    """Saves a run to its store, and restores it from there."""

    def __init__(
        self, job: Job, parts: Parts, store: Store, settings: Settings, group: Group
    ) -> None:
        """Prepares the folder. Collective.

        Raises:
            CheckpointFailed: nothing can be written there. Now is better than at the first save.
        """
        self._job = job
        self._parts = parts
        self._store = store
        self._settings = settings
        self._group = group
        self._place: tuple[int, int, int] | None = None
        token = group.share(secrets.token_hex(6))
        trouble = _prepare_folder(store, token) if group.is_local_leader else ""
        for told in group.gather(trouble):
            if told:
                raise CheckpointFailed(
                    f"no checkpoint can be written to {store.folder}: {told}",
                    fix="mount it writable, or pass stoker.checkpoints(…, folder=…)",
                )
        # A second group for the background thread: collectives of the loop's must not mix with its
        # own.
        self._saver = Saver(store, make_group(job), token=token, keep=settings.keep)
        self._hooks = [
            # What an optimizer owns is still being copied while the next step's gradients are
            # computed.
            optimizer.register_step_pre_hook(lambda *_: self._saver.wait_for_copy())
            for optimizer in parts.optimizers()
        ]

    @property
    def last(self) -> Saved | None:
        """The newest save of this process that is on the disk."""
        return self._saver.last

    @property
    def is_failed(self) -> bool:
        """Whether a save in the background went wrong; `finish` raises it."""
        return self._saver.is_failed

    def has(self, progress: Progress) -> bool:
        """Whether this very place of the run is saved, or being saved."""
        return self._place == progress.place

    def resume(self, progress: Progress, loop: Loop) -> Resumed | None:
        """Takes the newest valid checkpoint up, if there is one, and it may be.

        Raises:
            CheckpointMismatch: it is of another run.
        """
        if not self._settings.resume:
            return None
        resumed = Resume(self._store, self._group, self._parts).run()
        if resumed is None:
            return None
        self._compare(resumed.manifest.config, resumed.checkpoint.name)
        progress.continue_from(resumed.loop, world_size=self._group.size)
        if resumed.own and resumed.manifest.world_size == self._group.size:
            loop.continue_from(dict(resumed.own))
        elif self._group.is_leader:
            warn(
                f"saved by {resumed.manifest.world_size} ranks, resumed by {self._group.size}: "
                "order of batches and random numbers are not those of an uninterrupted run"
            )
        self._place = progress.place
        return resumed

    def prepare(self, progress: Progress, loop: Loop) -> None:
        """Makes the memory for saving, once optimizers have their state."""
        if not self._saver.is_prepared:
            self._saver.prepare(self._snapshot(progress, loop).layout.size_bytes)

    def save(self, progress: Progress, loop: Loop, metric: Metric | None) -> None:
        """Begins to save; waits for the save before.

        Raises:
            CheckpointFailed: that one went wrong.
        """
        # What goes wrong, here or later, leaves this place to be saved again.
        self._place = None
        self._saver.start(self._snapshot(progress, loop), self._about(progress, metric))
        self._place = progress.place

    def finish(self) -> Saved | None:
        """Waits until all is durable; returns a save that was not returned before.

        Raises:
            CheckpointFailed: it went wrong.
        """
        before = self._saver.last
        try:
            saved = self._saver.finish()
        except StokerError:
            self._place = None
            raise
        return None if saved is before else saved

    def close(self) -> None:
        self._saver.close()
        for hook in self._hooks:
            hook.remove()

    def _compare(self, config: Mapping[str, str], name: str) -> None:
        changed = differences(config, self._settings.config)
        text = f"checkpoint {name} is of other hyperparameters: {', '.join(changed)}"
        if changed and self._settings.if_changed == "refuse":
            raise CheckpointMismatch(
                text, fix='use another checkpoint_s3_uri, or pass if_changed="warn" to continue'
            )
        if changed and self._group.is_leader:
            warn(text)

    def _snapshot(self, progress: Progress, loop: Loop) -> Snapshot:
        is_leader = self._group.is_leader
        state: dict[str, Any] = {}
        if is_leader or self._parts.is_sharded:
            state = {**self._parts.state(), "loop": progress.to_json()}
        return Snapshot(
            state,
            loop.state(),
            settled=self._parts.settled() if self._settings.overlap else (),
            is_leader=is_leader,
        )

    def _about(self, progress: Progress, metric: Metric | None) -> Manifest:
        return Manifest(
            step=progress.step,
            epoch=progress.epoch,
            batch=progress.batch,
            world_size=self._group.size,
            shards=(),
            checksum="",
            parts=self._parts.names,
            metric=metric,
            config=self._settings.config,
            job=self._job.name,
            saved_at=now_text(),
        )


def _prepare_folder(store: Store, token: str) -> str:
    """Tries to write there, and clears what dead writers left. Returns what is wrong."""
    try:
        # Writes, creates, locks and removes: all that a save will need of the folder.
        Draft(store.folder, f"{token}-0").discard()
    except OSError as error:
        return error.strerror or str(error)
    swept = store.sweep()
    if swept:
        say(f"removed {len(swept)} half-written checkpoint{'s' * (len(swept) > 1)}")
    return ""

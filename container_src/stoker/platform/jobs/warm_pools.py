"""The warm pools of all jobs: kept for their time, passed on, removed.

A pool is a folder with the cache that its jobs share and, for jobs of one host, a container of
the last job's image that waits. Each job gets a new container: nothing of the job before it is
seen but the cache.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from stoker.contract.paths import OPT_ML, Paths
from stoker.errors import HostError
from stoker.platform.data.confined import remove_tree
from stoker.platform.engines.engine import Launch, Standby
from stoker.platform.jobs.context import JobContext
from stoker.platform.jobs.state import JobRecord
from stoker.platform.jobs.store import Store, UnknownJob
from stoker.platform.jobs.warm_pool_states import make_match, pass_on, terminate
from stoker.platform.model.mount import Mount
from stoker.platform.model.processing_request import ProcessingRequest
from stoker.platform.model.request import TrainingRequest, parse_request
from stoker.platform.model.root import Root

CACHE_DIR = Paths(root=OPT_ML).warm_pool_dir
_LONGEST_WAIT_SECONDS = 3600.0

_log = logging.getLogger(__name__)


def make_cache_mount(root: Root, pool: str, host: str) -> Mount:
    """What the jobs of a pool share; the folder is made."""
    folder = root.warm_pool_dir(pool) / "cache" / host
    folder.mkdir(parents=True, exist_ok=True)
    return Mount(source=folder, target=CACHE_DIR)


def find_standby(root: Root, record: JobRecord) -> Standby | None:
    """The waiting container that a job took with its pool; only its first attempt may use it."""
    if not record.claimed or len(record.attempts) != 1:
        return None
    return _make_standby(root, record.pool, record.claimed)


def _make_standby(root: Root, pool: str, job: str) -> Standby:
    return Standby(name=f"{job}-warm", folder=root.warm_pool_dir(pool))


class WarmPools:
    """All pools of a root; safe to use from several threads. The store knows their states."""

    def __init__(self, context: JobContext, store: Store) -> None:
        self._context = context
        self._store = store
        # Held while a container is made or taken: a job that comes meanwhile waits for it.
        self._changed = threading.Condition()
        self._closing = False

    def adopt(self, unfinished: Iterable[JobRecord]) -> None:
        """Take over what an earlier server left; its waiting containers are made again."""
        for name in self._context.engine.list_standbys():
            self._context.engine.remove(name)
        takers = {record.claimed: record.name for record in unfinished if record.claimed}
        used = {record.pool for record in unfinished}
        for record in self._store.with_warm_pool("Available"):
            if record.name in takers:  # that server was killed in between
                self._pass_on(record, takers[record.name])
            else:
                self.keep(record.name)
                used.add(record.pool)
        for folder in self._context.root.warm_pools_dir.iterdir():
            if folder.name not in used:
                self._remove_folder(folder, "")
        threading.Thread(target=self._expire, name="warm-pools", daemon=True).start()

    def claim(self, record: JobRecord, request: TrainingRequest) -> None:
        """Record which pool a job uses: one that it takes over, or its own if it leaves one."""
        if record.claimed:  # by a server that was killed; its container has lost its folder
            self._remove_standby(record.claimed)
        if record.pool or isinstance(request, ProcessingRequest):
            return
        with self._changed:
            found = self._find(record)
            pool = found.pool if found else record.name if record.warm else ""
            claimed = found.name if found else ""
            self._store.change(record.name, lambda r: replace(r, pool=pool, claimed=claimed))
            if found is None:
                return
            self._pass_on(found, record.name)
        _log.info("%s: takes the warm pool of %s", record.name, found.name)
        standby = _make_standby(self._context.root, pool, claimed)
        if len(request.hosts) == 1:
            with suppress(FileNotFoundError):  # none could be made
                standby.host_dir.rename(self._context.root.host_dir(record.name, request.hosts[0]))

    def _find(self, record: JobRecord) -> JobRecord | None:
        """The pool that was left last; one of the same image is preferred."""
        match, now = make_match(record.request), time.time()
        image = parse_request(record.request).image
        fitting = [
            each
            for each in self._store.with_warm_pool("Available")
            if _get_end(each) > now and make_match(each.request) == match
        ]
        return max(
            fitting,
            key=lambda r: (parse_request(r.request).image == image, _get_end(r)),
            default=None,
        )

    def keep(self, name: str) -> None:
        """A job has ended: if it leaves a pool, make its container wait for the next one."""
        with self._changed:
            record = self._read(name)
            if record is None or self._closing:
                return
            if record.claimed:  # it may have ended before its start
                self._remove_standby(record.claimed)
            if record.warm is not None and record.warm.status == "Available":
                self._warm_up(record)
                self._changed.notify_all()
            elif record.pool and not (record.warm and record.warm.status == "Reused"):
                self._remove_pool(record)

    def look_again(self) -> None:
        """The period of a job was changed."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """No container waits without a server; the next one makes them again."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        with suppress(HostError):
            for name in self._context.engine.list_standbys():
                self._context.engine.remove(name)

    def _warm_up(self, record: JobRecord) -> None:
        request, root = parse_request(record.request), self._context.root
        if len(request.hosts) != 1:
            return
        standby = _make_standby(root, record.pool, record.name)
        try:
            with suppress(FileNotFoundError):
                remove_tree(standby.host_dir)
            Path(f"{standby.host_dir}{CACHE_DIR.removeprefix(OPT_ML)}").mkdir(parents=True)
            self._context.engine.keep_warm(
                Launch(
                    name=standby.name,
                    job=record.name,
                    host=request.hosts[0],
                    attempt=0,
                    image=request.image,
                    environment={},
                    mounts=(make_cache_mount(root, record.pool, request.hosts[0]),),
                    host_dir=standby.host_dir,
                    isolated=request.isolated,
                    standby=standby,
                )
            )
        except (HostError, OSError) as error:  # the next job starts as any other
            _log.warning("%s: no container waits for the next job: %s", record.name, error)

    def _expire(self) -> None:
        with self._changed:
            while not self._closing:
                now = time.time()
                kept = self._store.with_warm_pool("Available")
                for record in kept:
                    if _get_end(record) <= now:
                        self._change(record, lambda r: terminate(r, time.time()))
                        self._remove_standby(record.name)
                        self._remove_pool(record)
                ends = [_get_end(record) for record in kept if _get_end(record) > now]
                left = min(ends, default=now + _LONGEST_WAIT_SECONDS) - time.time()
                self._changed.wait(max(0.0, min(left, _LONGEST_WAIT_SECONDS)))

    def _remove_pool(self, record: JobRecord) -> None:
        folder = self._context.root.warm_pool_dir(record.pool)
        self._remove_folder(folder, parse_request(record.request).image)

    def _remove_standby(self, job: str) -> None:
        """That which a job left, if it still waits."""
        name = _make_standby(self._context.root, "", job).name
        try:
            self._context.engine.remove(name)
        except HostError as error:
            _log.warning("%s: %s", name, error)

    def _remove_folder(self, folder: Path, image: str) -> None:
        try:
            try:
                remove_tree(folder)
            except PermissionError:  # a container wrote as root
                if not image:
                    raise
                self._context.engine.take_ownership(folder, image)
                remove_tree(folder)
        except FileNotFoundError:
            pass
        except (HostError, OSError) as error:
            _log.warning("%s cannot be removed: %s; fix: sudo rm -r it", folder, error)

    def _pass_on(self, record: JobRecord, job: str) -> None:
        self._change(record, lambda r: pass_on(r, job, time.time()))

    def _change(self, record: JobRecord, function: Callable[[JobRecord], JobRecord]) -> None:
        with suppress(UnknownJob):  # it was deleted meanwhile
            self._store.change(record.name, function)

    def _read(self, name: str) -> JobRecord | None:
        try:
            return self._store.read(name)
        except UnknownJob:
            return None


def _get_end(record: JobRecord) -> float:
    return (record.warm and record.warm.until) or 0.0

"""All tuning jobs in progress: created, stopped, deleted, adopted after a restart."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from stoker.platform.jobs.context import JobContext
from stoker.platform.jobs.store import Store
from stoker.platform.jobs.submission import read_tags, require_startable
from stoker.platform.jobs.supervisor import JobSupervisor
from stoker.platform.model import faults
from stoker.platform.model.request import parse_request
from stoker.platform.tuning.request import (
    TuningRequest,
    parse_tuning_request,
    read_tuning_request,
)
from stoker.platform.tuning.state import ParentTrial, TuningRecord
from stoker.platform.tuning.store import TuningStore
from stoker.platform.tuning.trial_request import make_trial_request
from stoker.platform.tuning.trials import TrialReader
from stoker.platform.tuning.worker import TuningWorker
from stoker.tuning.warm_start import find_parent_mistakes

_MOST_TUNING_JOBS = 100  # each has a thread
_CLOSE_SECONDS = 10.0


class TuningSupervisor:
    """One thread per tuning job that is not over."""

    def __init__(
        self,
        context: JobContext,
        store: Store,
        tuning_store: TuningStore,
        supervisor: JobSupervisor,
    ) -> None:
        self._context = context
        self._store = store
        self._tuning_store = tuning_store
        self._supervisor = supervisor
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._running: dict[str, TuningWorker] = {}

    def adopt(self) -> None:
        """Continue every tuning job that an earlier server left."""
        for record in self._tuning_store.read_all():
            if not record.is_over:
                self._begin(record.name)

    def create(self, params: Mapping[str, Any]) -> TuningRecord:
        """CreateHyperParameterTuningJob.

        Raises:
            ApiFault: the request is refused.
        """
        request = read_tuning_request(params)
        if self._tuning_store.find(request.name) is not None:
            raise _name_taken(request.name)
        if sum(worker.is_alive() for worker in self._running.values()) >= _MOST_TUNING_JOBS:
            raise faults.limit_exceeded(
                f"{_MOST_TUNING_JOBS} tuning jobs are in progress, which is the most this platform"
                " takes; wait until some have ended, or stop them"
            )
        earlier = tuple(self._read_parents(request))
        for definition in request.definitions:
            sample = definition.space.decode([0.0] * len(definition.space.parameters))
            raw = make_trial_request(definition.raw, request.name, definition.metric, sample)
            require_startable(parse_request(raw), self._context)
        now = time.time()
        record = TuningRecord(
            name=request.name,
            request={key: value for key, value in params.items() if key != "Tags"},
            created=now,
            modified=now,
            earlier=earlier,
            tags=read_tags(params.get("Tags", ())),
        )
        if not self._tuning_store.add(record):
            raise _name_taken(request.name)
        self._begin(record.name)
        return record

    def stop(self, name: str) -> None:
        """StopHyperParameterTuningJob: what runs is stopped, everything is kept."""
        now = time.time()
        self._tuning_store.change(
            name, lambda r: replace(r, stop_asked=True, status="Stopping", modified=now)
        )
        with self._lock:
            worker = self._running.get(name)
        if worker is not None:
            worker.wake.set()

    def close(self) -> None:
        """Release all tuning jobs: the next server continues them."""
        self._closing.set()
        with self._lock:
            workers = list(self._running.values())
        for worker in workers:
            worker.wake.set()
        deadline = time.monotonic() + _CLOSE_SECONDS
        for worker in workers:
            worker.join(max(0.0, deadline - time.monotonic()))

    def _begin(self, name: str) -> None:
        worker = TuningWorker(
            name,
            tuning_store=self._tuning_store,
            context=self._context,
            store=self._store,
            supervisor=self._supervisor,
            closing=self._closing,
        )
        with self._lock:
            self._running = {n: w for n, w in self._running.items() if w.is_alive()}
            self._running[name] = worker
            worker.start()

    def _read_parents(self, request: TuningRequest) -> Iterator[ParentTrial]:
        """The ended trials of the parents.

        Raises:
            ApiFault: a parent is not there, is in progress, or does not fit.
        """
        for name in request.parents:
            parent = self._tuning_store.find(name)
            if parent is None:
                raise faults.resource_not_found(
                    f"Amazon SageMaker can't find a tuning job called {name}. Type another name."
                )
            if not parent.is_over:
                raise faults.validation(
                    f"Parent tuning job '{name}' is in status {parent.status}. Wait until it has "
                    "ended, or stop it."
                )
            asked = parse_tuning_request(parent.request)
            mistakes = list(_compare(request, name, asked))
            if mistakes:
                raise faults.validation("; ".join(mistakes))
            for view in TrialReader(self._store, self._context.series).read(parent, asked):
                if view.trial.objective is not None:
                    yield ParentTrial(
                        parent=name,
                        number=view.record.number,
                        job=view.record.job,
                        parameters=view.record.parameters,
                        objective=view.trial.objective,
                    )


def _compare(request: TuningRequest, parent: str, asked: TuningRequest) -> Iterator[str]:
    ours, theirs = request.definitions[0], asked.definitions[0]
    yield from find_parent_mistakes(
        parent,
        metric=ours.metric,
        goal=ours.goal,
        names={*ours.static, *(p.name for p in ours.space.parameters)},
        parent_metric=theirs.metric,
        parent_goal=theirs.goal,
        parent_names={*theirs.static, *(p.name for p in theirs.space.parameters)},
    )


def _name_taken(name: str) -> faults.ApiFault:
    return faults.resource_in_use(
        f"A hyperparameter tuning job with the name, {name}, already exists. Choose a different "
        "name."
    )

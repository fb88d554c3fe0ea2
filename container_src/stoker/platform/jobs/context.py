"""What the server passes to its jobs; made once, at the edge, and passed down."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from stoker.platform.data.log_streams import LogStreams
from stoker.platform.data.storage import Storage
from stoker.platform.engines.engine import Engine
from stoker.platform.jobs.series import MetricSeries
from stoker.platform.model.request import TrainingRequest
from stoker.platform.model.root import Credentials, Root


@dataclass(frozen=True, kw_only=True, slots=True)
class JobContext:
    """The platform's parts that every job uses."""

    root: Root

    engine: Engine

    storage: Storage
    """S3, as the server itself reaches it."""

    streams: LogStreams

    series: MetricSeries
    """The values of metrics."""

    credentials: Credentials
    """For containers that speak to the embedded S3."""

    s3_port: int
    """With `engine.s3_host()`: where containers reach the embedded S3."""

    slots: int
    """How many jobs run side by side; the others wait."""

    cpus: int
    """What this machine has for all jobs together."""

    environment: Mapping[str, str]
    """The server's own: STOKER_SPOT, STOKER_GRACE_SECONDS, STOKER_HOLD are looked for."""

    make_variables: Callable[[TrainingRequest, str], Mapping[str, str]] = lambda _job, _host: {}
    """What else a host of a job finds in its environment; the request's own variables win."""


def say_once(streams: LogStreams, request: TrainingRequest, *texts: str) -> None:
    """Add lines to the leader's log unless they are there."""
    leader = request.hosts[0]
    lines = dict.fromkeys(f"[stoker] {text}" for text in texts)
    if not lines:
        return
    for event in streams.read(request.name, leader, 0):  # a log may be larger than the memory
        lines.pop(event.text, None)
    now = int(time.time() * 1000)
    streams.append(request.name, leader, [(now, line) for line in lines])

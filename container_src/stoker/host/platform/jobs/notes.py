"""What the platform itself says in a job's log: each thing once, also if a server says it again.

Only while nothing of the job runs: the log pump counts lines.
"""

from __future__ import annotations

import time

from stoker.host.platform.logs.streams import LogStreams
from stoker.host.platform.request import TrainingRequest


def say_once(streams: LogStreams, request: TrainingRequest, *texts: str) -> None:
    """Add lines to the leader's log unless they are there."""
    leader = request.hosts[0]
    lines = [f"[stoker] {text}" for text in texts]
    if not lines:
        return
    said = {event.text for event in streams.read(request.name, leader, 0)}
    now = int(time.time() * 1000)
    streams.append(request.name, leader, [(now, line) for line in lines if line not in said])

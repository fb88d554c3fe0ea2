"""What the server hands to its jobs; made once, at the edge, and passed down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stoker.host.platform.around.storage import Storage
from stoker.host.platform.engines.engine import Engine
from stoker.host.platform.logs.streams import LogStreams
from stoker.host.platform.root import Credentials, Root


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """The parts a job's life is composed of."""

    root: Root

    engine: Engine

    storage: Storage
    """S3, as the server itself reaches it."""

    streams: LogStreams

    credentials: Credentials
    """For containers that speak to the embedded S3."""

    s3_port: int
    """With `engine.s3_host()`: where containers reach the embedded S3."""

    slots: int
    """How many jobs run side by side; the others wait."""

    environment: Mapping[str, str]
    """The server's own: STOKER_SPOT, STOKER_GRACE_SECONDS, STOKER_HOLD are looked for."""

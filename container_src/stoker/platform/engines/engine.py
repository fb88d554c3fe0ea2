"""What a job asks of an engine, and the values that pass between them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from stoker.errors import HostError
from stoker.platform.model.mount import Mount

EngineName = Literal["docker", "process"]
DEFAULT_SHM_BYTES = 2 * 1024**3
"""Docker's own default of 64 MB is too small for DataLoader workers."""


LISTEN_SECONDS = 10.0
"""How long after its start a run's first process is given to listen for SIGTERM.

Before that, PID 1 of a container would not receive it, and it would end any other process.
"""


class EngineFailed(HostError):
    """The engine refused; the text holds its own words."""


class LayersRefused(EngineFailed):
    """This machine cannot mount layers: the files have to be copied."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Network:
    """How the hosts of one job reach each other."""

    name: str
    """The engine's name for it."""
    addresses: Mapping[str, str]
    """Host → address; empty for a single host."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Standby:
    """A run that waits for its command, and the folders that were mounted into it."""

    name: str
    folder: Path

    @property
    def host_dir(self) -> Path:
        """Its /opt/ml, until the job that takes it moves the folder to its own."""
        return self.folder / "ml"

    @property
    def control_dir(self) -> Path:
        """Where it gets its command."""
        return self.folder / "control"


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """One run of one host."""

    name: str
    """Unique within the root, such as `<job>-<host>-<attempt>`."""
    job: str
    host: str
    attempt: int
    image: str
    entrypoint: tuple[str, ...] | None = None
    """ContainerEntrypoint; None leaves the image's own."""
    arguments: tuple[str, ...] = ()
    """ContainerArguments."""
    is_training: bool = True
    """Then neither arguments nor an entrypoint means `train`; else the image's own command."""
    environment: Mapping[str, str]
    mounts: tuple[Mount, ...] = ()
    host_dir: Path
    """Becomes /opt/ml."""
    network: Network | None = None
    address: str | None = None
    peers: Mapping[str, str] = field(default_factory=dict)
    """All hosts of the job → address, this one included or not."""
    isolated: bool = False
    shm_bytes: int = DEFAULT_SHM_BYTES
    standby: Standby | None = None
    """Takes this run if it still waits; `host_dir` was its folder."""
    image_has_code: bool = False
    """In /opt/ml/code; known to the engine that has images."""

    @property
    def command(self) -> tuple[str, ...]:
        """What follows the image's name."""
        is_default = self.is_training and not self.entrypoint
        return self.arguments or (("train",) if is_default else ())


@dataclass(frozen=True, kw_only=True, slots=True)
class Exit:
    """How a run ended."""

    code: int
    """Its own, or 128 + the signal that ended it."""
    oom_killed: bool = False
    """The kernel ended it because memory was short. Only Docker can tell."""
    error: str = ""
    """The engine's words, if it had any."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalImage:
    """An image of this machine under names of one repository."""

    digest: str
    """Its id: a local image has no digest of a registry."""

    tags: tuple[str, ...]
    """Those of the repository."""

    size_bytes: int
    created: float
    """Seconds since the epoch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Running:
    """A run the engine knows of, ended ones included."""

    name: str
    job: str
    host: str
    attempt: int


class Engine(Protocol):
    """Starts runs, reports their state, and leaves nothing behind. Safe to use from threads.

    Nothing that matters is kept in memory: a new engine on the same root finds all runs.
    """

    @property
    def name(self) -> EngineName:
        """Which one this is."""

    @property
    def reason(self) -> str:
        """Why it was chosen, for the user."""

    @property
    def layers_refused(self) -> str:
        """Why mounts cannot have layers; empty if they can, or before the first try."""

    def require_image(self, image: str) -> None:
        """Raises ImageMissing unless a run of the image can be started."""

    def explain_image(self, image: str) -> list[str]:
        """What runs in place of an image of AWS, in lines for a log; none for other images."""

    def image_digest(self, image: str) -> str:
        """What identifies the content of an image; empty if the engine runs none."""

    def list_images(self, repository: str) -> list[LocalImage]:
        """The images of this machine that are named `repository:tag`."""

    def s3_host(self) -> str:
        """The address of this machine under which a run reaches the S3 server."""

    def make_network(self, job: str, hosts: Sequence[str], *, isolated: bool) -> Network:
        """Makes the network of a job, or finds the one made before.

        Raises:
            EngineFailed: this machine cannot have one.
        """

    def remove_network(self, job: str) -> None:
        """Removes it; a job without one is not an error."""

    def start(self, launch: Launch) -> None:
        """Starts a run. One that was started before is left as it is.

        Raises:
            LayersRefused: a mount has layers; `layers_refused` says why from now on.
            EngineFailed: it cannot start; nothing is left of it.
        """

    def keep_warm(self, launch: Launch) -> None:
        """Makes `launch.standby`, for a later run of the same image, host and mounts.

        An engine that starts a run in no time makes none.

        Raises:
            EngineFailed: it cannot start; nothing is left of it.
        """

    def list_standbys(self) -> list[str]:
        """The names of those that still wait."""

    def wait(self, name: str, timeout_seconds: float) -> Exit | None:
        """How a run ended; None if it is still running when the time has passed.

        Raises:
            EngineLost: the run is gone; EngineSilent: the engine has not answered for too long.
        """

    def signal(self, name: str, number: int) -> bool:
        """Signals a run's first process; SIGKILL ends all of them. An ended run is not an error.

        SIGTERM waits until that process listens, or has had LISTEN_SECONDS to begin with it.

        Returns:
            False if it has no effect: the kernel keeps it from a container's first process that
            has no handler.
        """

    def read_log(self, name: str, start_byte: int) -> Iterator[bytes]:
        """What a run writes, from a byte on, every byte once and in order, until its end.

        Raises:
            EngineLost: the run is gone; EngineSilent: the engine has not answered for too long.
        """

    def remove(self, name: str) -> None:
        """Ends a run if need be and removes all traces of it; an unknown one is not an error."""

    def list_runs(self) -> list[Running]:
        """Every run of this root that was not removed, ended ones too."""

    def take_ownership(self, folder: Path, image: str) -> None:
        """Gives the user what a run wrote as root."""

    def adapt_config_files(self, host_dir: Path) -> None:
        """Makes config files that were written again name the paths a running host sees."""

    def sweep(self) -> None:
        """Removes runs and networks of this root whose job has no folder any more."""

    def close(self) -> None:
        """Ends helper processes of this engine. Runs continue."""


def root_id(folder: Path) -> str:
    """A short name for a root: what is labelled with it belongs to that root alone."""
    return hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:12]


def make_overlay_options(mount: Mount) -> str:
    """The options of overlayfs for a mount with layers, whose paths have no `,`, `:` or `\\`."""
    source, lower = str(mount.source.absolute()), [str(layer) for layer in mount.layers]
    if mount.read_only:
        return f"lowerdir={':'.join([source, *lower])}"
    return f"lowerdir={':'.join(lower)},upperdir={source},workdir={mount.work_dir.absolute()}"


def in_opt_ml(target: str) -> str | None:
    """The path below /opt/ml, or None if it is not below it."""
    return target.removeprefix("/opt/ml/") if target.startswith("/opt/ml/") else None

"""The arguments of `docker create` for a container."""

from __future__ import annotations

import csv
import io
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from stoker.contract.paths import OPT_ML
from stoker.machine.certificates import VARIABLES
from stoker.machine.processes import has_signal
from stoker.platform.engines.engine import Launch, Running, make_overlay_options
from stoker.platform.model.mount import Mount

ROOT_LABEL = "stoker.root"
JOB_LABEL = "stoker.job"
_NAME_LABEL, _HOST_LABEL, _ATTEMPT_LABEL = "stoker.name", "stoker.host", "stoker.attempt"
# What SageMaker gives after SIGTERM, for a `docker stop` by hand, too.
_GRACE_SECONDS = 120
_CERTIFICATES = "/etc/ssl/stoker-host-certificates.pem"
# One file of no practical limit, whatever the engine's default is: nothing of a log is lost.
_LOG = ("--log-driver", "json-file", "--log-opt", "max-size=1000g")

_RUN_NAME = re.compile(r"(?P<job>.+)-(?P<host>algo-\d+)-(?P<attempt>\d+)")

TOP_FORMAT = "pid,caught,ignored,comm"
"""For `docker top -eo`: what `heeds` reads."""


@contextmanager
def environment_file(launch: Launch) -> Iterator[str]:
    """The file with a run's environment, for the moment in which the container is made.

    It holds keys: every user of the machine could read them in a command.
    """
    with tempfile.NamedTemporaryFile("w", dir=launch.host_dir.parent, encoding="utf-8") as file:
        file.writelines(
            f"{name}={text}\n" for name, text in launch.environment.items() if _is_line(text)
        )
        file.flush()
        yield file.name


def broken_variables(launch: Launch) -> dict[str, str]:
    """Those of several lines, which no such file can hold: the client's own environment does."""
    return {name: text for name, text in launch.environment.items() if not _is_line(text)}


def with_certificates(launch: Launch, bundle: Path | None) -> Launch:
    """A run that trusts what this machine trusts: else pip fails behind such a proxy."""
    if bundle is None or launch.isolated:
        return launch
    mount = Mount(source=bundle, target=_CERTIFICATES, read_only=True)
    trusted = dict.fromkeys(VARIABLES, _CERTIFICATES)
    return replace(
        launch,
        mounts=(*launch.mounts, mount),
        environment={**trusted, **launch.environment},
    )


def make_create_arguments(
    launch: Launch, *, container: str, root_id: str, gpus: bool, env_file: str
) -> list[str]:
    """What follows `docker create`.

    Not `--rm`: whether memory was short can be read only while the container exists.
    """
    entrypoint = launch.entrypoint or ()
    return [
        *("--name", container),
        *_labels(launch, root_id),
        *get_fixed_options(launch, gpus=gpus),
        *make_mount_options(Mount(source=launch.host_dir, target=OPT_ML)),
        *get_code_options(launch),
        *(option for mount in launch.mounts for option in make_mount_options(mount)),
        *("--env-file", env_file),
        *(option for name in broken_variables(launch) for option in ("--env", name)),
        *(("--entrypoint", entrypoint[0]) if entrypoint else ()),
        *(launch.image, *entrypoint[1:], *launch.command),
    ]


def get_code_options(launch: Launch) -> list[str]:
    """The image's own /opt/ml/code, which the mount of /opt/ml would hide: the service shows it.

    The engine fills a new volume with what the image has at its place.
    """
    return ["--mount", f"type=volume,target={OPT_ML}/code"] if launch.image_has_code else []


def get_fixed_options(launch: Launch, *, gpus: bool) -> list[str]:
    """What is the same for every run of a host, whatever it runs."""
    return [
        *("--pull", "never", "--hostname", launch.host, *_network(launch)),
        *("--shm-size", str(launch.shm_bytes), "--stop-timeout", str(_GRACE_SECONDS), *_LOG),
        *(("--gpus", "all") if gpus else ()),
    ]


def read_run(labels: Mapping[str, str], name: str) -> Running | None:
    """The run that a container belongs to; None if it still waits for one.

    Args:
        labels: of the container. One that waited has none of a run: they cannot be changed.
        name: the run's, if it has one.
    """
    if JOB_LABEL not in labels:
        taken = _RUN_NAME.fullmatch(name)
        return taken and Running(
            name=name, job=taken["job"], host=taken["host"], attempt=int(taken["attempt"])
        )
    return Running(
        name=labels[_NAME_LABEL],
        job=labels[JOB_LABEL],
        host=labels[_HOST_LABEL],
        attempt=int(labels[_ATTEMPT_LABEL]),
    )


def heeds(listed: str, pid: int, number: int) -> bool:
    """Whether a container's first process chose what a signal does, by `docker top`'s answer."""
    for line in listed.splitlines()[1:]:
        found, *masks, command = line.split(maxsplit=3)
        # Until the program replaces it, the engine's own helper catches every signal.
        if int(found) == pid and not command.startswith("runc:["):
            return any(has_signal(mask, number) for mask in masks)
    return False


def _labels(launch: Launch, root_id: str) -> list[str]:
    labels = {
        ROOT_LABEL: root_id,
        _NAME_LABEL: launch.name,
        JOB_LABEL: launch.job,
        _HOST_LABEL: launch.host,
        _ATTEMPT_LABEL: str(launch.attempt),
    }
    return [part for label, text in labels.items() for part in ("--label", f"{label}={text}")]


def _network(launch: Launch) -> list[str]:
    """A network of the job's own, none at all, or the engine's default."""
    if launch.network is not None and launch.address is not None:
        # Docker itself adds the host's own name.
        known = {host: at for host, at in launch.peers.items() if host != launch.host}
        options = ["--network", launch.network.name, "--ip", launch.address]
        options += ["--network-alias", launch.host]
    elif launch.isolated:
        # Without an interface the look-up of the host's own name would fail after a long time.
        known = {launch.host: "127.0.0.1"}
        options = ["--network", "none"]
    else:
        known, options = {}, []
    for host, address in known.items():
        options += ["--add-host", f"{host}:{address}"]
    return options


def make_mount_options(mount: Mount) -> list[str]:
    """A bind mount; with layers a volume, which the engine mounts: we need not be root."""
    fields = ["type=bind", f"source={mount.source.absolute()}"]
    if mount.layers:
        fields = ["type=volume", "volume-driver=local", "volume-opt=type=overlay"]
        fields += ["volume-opt=device=overlay", f"volume-opt=o={make_overlay_options(mount)}"]
    fields += [f"target={mount.target}", *(["readonly"] * mount.read_only)]
    line = io.StringIO()  # a path may hold commas and quotes
    csv.writer(line, lineterminator="").writerow(fields)
    return ["--mount", line.getvalue()]


def _is_line(text: str) -> bool:
    return not {"\n", "\r"} & set(text)

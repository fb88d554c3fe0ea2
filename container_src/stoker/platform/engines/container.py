"""A container as `docker create` is told to make it."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from stoker.contract.paths import OPT_ML
from stoker.platform.engines.engine import Launch, Running
from stoker.platform.model.mount import Mount

ROOT_LABEL = "stoker.root"
JOB_LABEL = "stoker.job"
_NAME_LABEL, _HOST_LABEL, _ATTEMPT_LABEL = "stoker.name", "stoker.notebook", "stoker.attempt"
_GRACE_SECONDS = 120
# One file of no practical limit, whatever the engine's default is: nothing of a log is lost.
_LOG = ("--log-driver", "json-file", "--log-opt", "max-size=1000g")

LIST_FORMAT = "\t".join(
    f'{{{{.Label "{label}"}}}}' for label in (_NAME_LABEL, JOB_LABEL, _HOST_LABEL, _ATTEMPT_LABEL)
)
"""For `docker ps`: what `read_listed` reads."""


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


def make_create_arguments(
    launch: Launch, *, container: str, root_id: str, gpus: bool, env_file: str
) -> list[str]:
    """What follows `docker create`.

    Not `--rm`: whether memory was short can be read only while the container exists.
    """
    entrypoint = launch.entrypoint or ()
    # Docker's files of variables are files of lines.
    broken = {name: text for name, text in launch.environment.items() if not _is_line(text)}
    return [
        *("--name", container, "--pull", "never"),
        *_labels(launch, root_id),
        *("--hostname", launch.host, *_network(launch)),
        *("--shm-size", str(launch.shm_bytes), "--stop-timeout", str(_GRACE_SECONDS), *_LOG),
        *(("--gpus", "all") if gpus else ()),
        *_bind(Mount(source=launch.host_dir, target=OPT_ML)),
        *(option for mount in launch.mounts for option in _bind(mount)),
        *("--env-file", env_file),
        *(option for name, text in broken.items() for option in _env(name, text)),
        *(("--entrypoint", entrypoint[0]) if entrypoint else ()),
        *(launch.image, *entrypoint[1:], *launch.command),
    ]


def read_listed(line: str) -> Running:
    """One line of `docker ps` in our format."""
    name, job, host, attempt = line.split("\t")
    return Running(name=name, job=job, host=host, attempt=int(attempt))


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
        # Without an interface the host's own name would be looked for, in vain and for long.
        known = {launch.host: "127.0.0.1"}
        options = ["--network", "none"]
    else:
        known, options = {}, []
    for host, address in known.items():
        options += ["--add-host", f"{host}:{address}"]
    return options


def _bind(mount: Mount) -> list[str]:
    fields = ["type=bind", f"source={mount.source.absolute()}", f"target={mount.target}"]
    line = io.StringIO()  # a path may hold commas and quotes
    csv.writer(line, lineterminator="").writerow([*fields, *(["readonly"] * mount.read_only)])
    return ["--mount", line.getvalue()]


def _is_line(text: str) -> bool:
    return not {"\n", "\r"} & set(text)


def _env(name: str, text: str) -> tuple[str, str]:
    return ("--env", f"{name}={text}")

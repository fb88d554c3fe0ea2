"""Checks of the Docker engine, its builder, network, images and leftovers."""

from __future__ import annotations

import os
import re
import shutil
import socket
from pathlib import Path

from stoker.cli.doctor.finding import Finding, Machine
from stoker.machine.docker import (
    ask,
    find_builder,
    find_client,
    image_present,
    image_size_bytes,
    make_image_fix,
    require_engine,
)
from stoker.machine.failures import BuilderMissing, EngineMissing
from stoker.machine.units import show_size


def check_engine(_machine: Machine) -> Finding:
    """Without one, jobs run as processes: a warning, no more."""
    try:
        client = find_client()
        version = require_engine(client)
    except EngineMissing as error:
        return Finding(
            check="engine",
            level="warning",
            text=f"{error.message}; jobs run as processes here",
            fix=error.fix,
        )
    return Finding(check="engine", level="ok", text=f"Docker {version} answers to {client}")


def check_builder(_machine: Machine) -> Finding:
    """`docker` on PATH need not be able to."""
    try:
        builder = find_builder()
    except BuilderMissing as error:
        return Finding(check="builder", level="warning", text=error.message, fix=error.fix)
    return Finding(check="builder", level="ok", text=builder.name)


def check_image(machine: Machine) -> Finding:
    """A job names an image that the engine must hold: nothing is pulled."""
    try:
        client = find_client()
        require_engine(client)
    except EngineMissing:
        return Finding(check="image", level="ok", text="not needed: no engine, no containers")
    if not image_present(client, machine.image):
        return Finding(
            check="image",
            level="problem",
            text=f"Docker has no image {machine.image}",
            fix=make_image_fix(machine.image),
        )
    size_bytes = image_size_bytes(client, machine.image) or 0
    return Finding(check="image", level="ok", text=f"{machine.image}, {show_size(size_bytes)}")


_SHM_FIX = (
    "for local mode: container_config={'shm_size': '2gb'} (SDK v2), or start dockerd with"
    " --default-shm-size 2g (SDK v3 has no setting); the platform sets 2 GB itself"
)


def check_shm(_machine: Machine) -> Finding:
    """64 MB is the engine's default: DataLoader workers end with a bus error."""
    asked = _default_of_the_daemon()
    if asked:
        return Finding(check="shm", level="ok", text=f"containers get {asked} by default")
    return Finding(
        check="shm",
        level="warning",
        text="containers of the SDKs' local mode get 64 MB of /dev/shm",
        fix=_SHM_FIX,
    )


def _default_of_the_daemon() -> str | None:
    for command in (["ps", "-C", "dockerd", "-o", "args="], ["cat", "/etc/docker/daemon.json"]):
        found = re.search(r"default-shm-size[\"=:\s]+([0-9]+[A-Za-z]*)", ask(command).tail)
        if found:
            return found[1]
    return None


def check_bridge(_machine: Machine) -> Finding:
    """The S3 server has to listen on the bridge: loopback is another one in a container."""
    try:
        require_engine(find_client())
    except EngineMissing:
        return Finding(check="bridge", level="ok", text="not needed: no engine, no containers")
    address = read_bridge_address()
    if address is None:
        return Finding(
            check="bridge",
            level="problem",
            text="there is an engine, but no docker0: containers cannot reach the platform's S3",
            fix="start the engine without --bridge=none, or run jobs with --engine process",
        )
    try:
        with socket.socket() as listener:
            # Port 0: whether the address is this machine's own, without taking a port for good.
            listener.bind((address, 0))
    except OSError as error:
        return Finding(
            check="bridge",
            level="problem",
            text=f"the address {address} of docker0 cannot be served: {error}",
            fix="restart the engine: its bridge is not up",
        )
    return Finding(check="bridge", level="ok", text=f"docker0 is {address}")


def read_bridge_address() -> str | None:
    """docker0's own address; engine 20.10 does not tell it by `docker network inspect`."""
    answer = ask(["ip", "-4", "-o", "addr", "show", "docker0"])
    found = re.search(r"inet ([0-9.]+)/", answer.tail) if answer.code == 0 else None
    return found[1] if found else None


_COMPOSE_FIX = (
    "apt-get install docker-compose (Debian 12: 1.29.2 serves both SDKs), or put a standalone"
    " docker-compose on PATH; only local mode needs it, the platform does not"
)


def check_compose(_machine: Machine) -> Finding:
    """Ask what the SDKs ask, and read the answer as they do."""
    plugin = ask(["docker", "compose", "version"])
    standalone = shutil.which("docker-compose")
    printed = plugin.tail if plugin.code == 0 else ""
    deaf = [
        sdk
        for sdk, knows in (("v2", _v2_knows(printed)), ("v3", _v3_knows(printed)))
        if not (knows or standalone)
    ]
    if deaf:
        seen = f"the plugin that says {printed!r}" if printed else "neither plugin nor standalone"
        text = f"local mode of SDK {' and '.join(deaf)} finds no Docker Compose ({seen})"
        return Finding(check="compose", level="warning", text=text, fix=_COMPOSE_FIX)
    return Finding(check="compose", level="ok", text=standalone or printed)


def _v2_knows(printed: str) -> bool:
    # Exactly the test of SDK v2: distributions print 2.40.3 without the letter, upstream v5.
    return "v2" in printed


def _v3_knows(printed: str) -> bool:
    found = re.search(r"version\s+v?(\d+)", printed)
    return found is not None and int(found[1]) >= 2


def check_leftovers(machine: Machine) -> Finding:
    """Containers write as root: their files may not be the user's."""
    foreign = _foreign_folders(machine.root / "jobs")
    if foreign:
        return Finding(
            check="leftovers",
            level="warning",
            text=f"not yours: {', '.join(map(str, foreign[:3]))}",
            fix=f"sudo chown -R $USER {machine.root}/jobs",
        )
    return Finding(check="leftovers", level="ok", text="none")


def _foreign_folders(jobs: Path) -> list[Path]:
    if os.getuid() == 0 or not jobs.is_dir():
        return []
    hosts = [entry for pattern in ("*", "*/*", "*/*/*") for entry in jobs.glob(pattern)]
    return [entry for entry in hosts if entry.lstat().st_uid != os.getuid()]

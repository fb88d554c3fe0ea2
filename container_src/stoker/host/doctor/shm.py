"""How large is /dev/shm of a container that nobody gave a size?"""

from __future__ import annotations

import re

from stoker.host.docker import ask
from stoker.host.doctor.finding import Finding, Machine

_FIX = (
    "for local mode: container_config={'shm_size': '2gb'} (SDK v2), or start dockerd with"
    " --default-shm-size 2g (SDK v3 has no setting); the platform sets 2 GB itself"
)


def check(_machine: Machine) -> Finding:
    """64 MB is the engine's default: DataLoader workers end with a bus error."""
    asked = _default_of_the_daemon()
    if asked:
        return Finding(check="shm", level="ok", text=f"containers get {asked} by default")
    return Finding(
        check="shm",
        level="warning",
        text="containers of the SDKs' local mode get 64 MB of /dev/shm",
        fix=_FIX,
    )


def _default_of_the_daemon() -> str | None:
    for command in (["ps", "-C", "dockerd", "-o", "args="], ["cat", "/etc/docker/daemon.json"]):
        found = re.search(r"default-shm-size[\"=:\s]+([0-9]+[A-Za-z]*)", ask(command).tail)
        if found:
            return found[1]
    return None

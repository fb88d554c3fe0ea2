"""What earlier jobs have left behind: containers of local mode, files that belong to root."""

from __future__ import annotations

import os
from pathlib import Path

from stoker.host.docker import ask, find_client
from stoker.host.doctor.finding import Finding, Machine
from stoker.host.failures import EngineMissing

_NETWORK = "sagemaker-local"  # both SDKs join every container of local mode to it


def check(machine: Machine) -> Finding:
    """The SDKs never remove a container; containers write as root."""
    containers = _ended_containers()
    foreign = _foreign_folders(machine.root / "jobs")
    if containers:
        return Finding(
            check="leftovers",
            level="warning",
            text=f"{len(containers)} ended containers of the SDKs' local mode",
            fix=f"docker rm {' '.join(containers[:20])}",
        )
    if foreign:
        return Finding(
            check="leftovers",
            level="warning",
            text=f"not yours: {', '.join(map(str, foreign[:3]))}",
            fix=f"sudo chown -R $USER {machine.root}/jobs",
        )
    return Finding(check="leftovers", level="ok", text="none")


def _ended_containers() -> list[str]:
    try:
        client = find_client()
    except EngineMissing:
        return []
    words = ["ps", "--all", "--quiet", "--filter", f"network={_NETWORK}"]
    answer = ask([client, *words, "--filter", "status=exited"])
    return answer.tail.split() if answer.code == 0 else []


def _foreign_folders(jobs: Path) -> list[Path]:
    if os.getuid() == 0 or not jobs.is_dir():
        return []
    hosts = [entry for pattern in ("*", "*/*", "*/*/*") for entry in jobs.glob(pattern)]
    return [entry for entry in hosts if entry.lstat().st_uid != os.getuid()]

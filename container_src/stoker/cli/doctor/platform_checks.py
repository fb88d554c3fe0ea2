"""Checks of the platform's own folder, disk space and ports."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

from stoker.cli.client.preflight import find_existing
from stoker.cli.client.server import find_server
from stoker.cli.doctor.finding import Finding, Machine
from stoker.machine.units import show_size
from stoker.platform.model.root import Root, read_server_info

_ENOUGH_BYTES = 10 * 2**30  # for an image, its build and a few jobs
_LITTLE_BYTES = 2 * 2**30


def check_disk(machine: Machine) -> Finding:
    """Data is there twice: as objects, and in the folder of the job that reads them."""
    folder = find_existing(machine.root)
    free_bytes = shutil.disk_usage(folder).free
    text = f"{show_size(free_bytes)} free for {machine.root}"
    if free_bytes >= _ENOUGH_BYTES:
        return Finding(check="disk", level="ok", text=text)
    return Finding(
        check="disk",
        level="problem" if free_bytes < _LITTLE_BYTES else "warning",
        text=text,
        fix=f"use a larger disk: --root DIR, or remove results you do not need: {machine.root}/s3",
    )


_REFUSED = ("/etc", "/root", "/var/lib", "/opt/ml/metadata")
_REFUSED_AT_HOME = (".aws", ".ssh", ".kube", ".docker", ".config", ".credentials")


def check_refused_folders(_machine: Machine) -> Finding:
    """Local mode only: SDK v2 tests the text of a path for these beginnings."""
    here = Path.cwd().resolve()
    refused = [*_REFUSED, *(str(Path.home() / name) for name in _REFUSED_AT_HOME)]
    found = next((start for start in refused if str(here).startswith(start)), None)
    if found:
        return Finding(
            check="data folder",
            level="warning",
            text=f"you are in {here}: local mode of SDK v2 refuses file:// data under {found}",
            fix="keep the data elsewhere, or use the platform: it takes data from anywhere",
        )
    return Finding(check="data folder", level="ok", text=f"{here} may hold file:// data")


def check_ports(machine: Machine) -> Finding:
    """Loopback, and a server file that outlived its server."""
    root = Root(machine.root)
    if server := find_server(root):
        return Finding(check="ports", level="ok", text=f"the platform answers: {server.endpoint}")
    if stale := read_server_info(root):
        return Finding(
            check="ports",
            level="warning",
            text=f"the platform of {machine.root} (process {stale.pid}) ended without cleaning up",
            fix="stoker local up --detach takes over its jobs",
        )
    try:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
    except OSError as error:
        return Finding(
            check="ports",
            level="problem",
            text=f"nothing can listen on 127.0.0.1: {error}",
            fix="bring the loopback interface up: ip link set lo up",
        )
    return Finding(check="ports", level="ok", text="127.0.0.1 can be served; no platform is up")

"""Can a server listen here, and does the one that says it runs really answer?"""

from __future__ import annotations

import socket

from stoker.host.doctor.finding import Finding, Machine
from stoker.host.platform.client.server import find_server
from stoker.host.platform.root import Root, read_server_info


def check(machine: Machine) -> Finding:
    """Loopback, and a server file that outlived its server."""
    root = Root(machine.root)
    if server := find_server(root):
        return Finding(check="ports", level="ok", text=f"the platform answers: {server.endpoint}")
    if stale := read_server_info(root):
        return Finding(
            check="ports",
            level="warning",
            text=f"the platform of {machine.root} (process {stale.pid}) ended without a farewell",
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

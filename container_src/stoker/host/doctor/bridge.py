"""Can containers reach a server of this machine?"""

from __future__ import annotations

import re
import socket

from stoker.host.docker import ask, find_client, require_engine
from stoker.host.doctor.finding import Finding, Machine
from stoker.host.failures import EngineMissing


def check(_machine: Machine) -> Finding:
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

"""Does a Docker engine answer?"""

from __future__ import annotations

from stoker.host.docker import find_client, require_engine
from stoker.host.doctor.finding import Finding, Machine
from stoker.host.failures import EngineMissing


def check(_machine: Machine) -> Finding:
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

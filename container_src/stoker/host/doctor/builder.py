"""Can a client here drive BuildKit?"""

from __future__ import annotations

from stoker.host.docker import find_builder
from stoker.host.doctor.finding import Finding, Machine
from stoker.host.failures import BuilderMissing


def check(_machine: Machine) -> Finding:
    """`docker` on PATH need not be able to."""
    try:
        builder = find_builder()
    except BuilderMissing as error:
        return Finding(check="builder", level="warning", text=error.message, fix=error.fix)
    return Finding(check="builder", level="ok", text=builder.name)

"""Would AWS variables of this shell steer stock code past the platform?"""

from __future__ import annotations

from stoker.host.doctor.finding import Finding, Machine
from stoker.host.platform.client.variables import find_conflicts, is_proxied


def check(machine: Machine) -> Finding:
    """A variable of one service wins over AWS_ENDPOINT_URL; a proxy does not know loopback."""
    conflicts = find_conflicts(machine.environ)
    if conflicts:
        return Finding(
            check="AWS variables",
            level="warning",
            text=f"set here and in the platform's way: {', '.join(conflicts)}",
            fix="eval $(stoker local env) removes them from this shell",
        )
    if is_proxied(machine.environ):
        return Finding(
            check="AWS variables",
            level="warning",
            text="a proxy is set, and 127.0.0.1 is not in no_proxy",
            fix="eval $(stoker local env) adds it",
        )
    return Finding(check="AWS variables", level="ok", text="nothing is in the platform's way")

"""Would boto3 look for credentials where there are none, and is output shown as it comes?"""

from __future__ import annotations

from stoker.host.doctor.finding import Finding, Machine

_WANTED = {"AWS_EC2_METADATA_DISABLED": "true", "PYTHONUNBUFFERED": "1"}


def check(machine: Machine) -> Finding:
    """Off EC2 the probing of the metadata address takes seconds on some networks."""
    unset = [name for name in _WANTED if not machine.environ.get(name)]
    if not unset:
        return Finding(check="SDK settings", level="ok", text="no probing, output unbuffered")
    return Finding(
        check="SDK settings",
        level="warning",
        text=f"not set: {', '.join(unset)}: slow starts off EC2, and logs that come at the end",
        fix="eval $(stoker local env), or export "
        + " ".join(f"{name}={_WANTED[name]}" for name in unset),
    )

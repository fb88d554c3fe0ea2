"""Does the platform's folder lie where SDK v2 would refuse `file://` data?"""

from __future__ import annotations

from pathlib import Path

from stoker.host.doctor.finding import Finding, Machine

_REFUSED = ("/etc", "/root", "/var/lib", "/opt/ml/metadata")
_REFUSED_AT_HOME = (".aws", ".ssh", ".kube", ".docker", ".config", ".credentials")


def check(_machine: Machine) -> Finding:
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

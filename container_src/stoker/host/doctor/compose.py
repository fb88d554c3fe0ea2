"""Would the two SDKs' local modes find Docker Compose? Each looks for it in a way of its own."""

from __future__ import annotations

import re
import shutil

from stoker.host.docker import ask
from stoker.host.doctor.finding import Finding, Machine

_FIX = (
    "apt-get install docker-compose (Debian 12: 1.29.2 serves both SDKs), or put a standalone"
    " docker-compose on PATH; only local mode needs it, the platform does not"
)


def check(_machine: Machine) -> Finding:
    """Ask what the SDKs ask, and judge the answer as they do."""
    plugin = ask(["docker", "compose", "version"])
    standalone = shutil.which("docker-compose")
    printed = plugin.tail if plugin.code == 0 else ""
    deaf = [
        sdk
        for sdk, knows in (("v2", _v2_knows(printed)), ("v3", _v3_knows(printed)))
        if not (knows or standalone)
    ]
    if deaf:
        seen = f"the plugin that says {printed!r}" if printed else "neither plugin nor standalone"
        text = f"local mode of SDK {' and '.join(deaf)} finds no Docker Compose ({seen})"
        return Finding(check="compose", level="warning", text=text, fix=_FIX)
    return Finding(check="compose", level="ok", text=standalone or printed)


def _v2_knows(printed: str) -> bool:
    # The very test of SDK v2: distributions print 2.40.3 without the letter, upstream has v5 now.
    return "v2" in printed


def _v3_knows(printed: str) -> bool:
    found = re.search(r"version\s+v?(\d+)", printed)
    return found is not None and int(found[1]) >= 2

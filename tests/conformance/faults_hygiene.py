"""Faults of the group `hygiene`: one for each check (see faults.py).

`FAULTS` patches the launcher inside the container; `IMAGES` adds lines to the Dockerfile; `ALSO`
declares, with the reason, which other checks a fault fails (`make cross` tries it).
"""

from __future__ import annotations

import os
import time


def starts_slowly():
    """51: dawdles before the script."""
    time.sleep(1)  # far above the limit: the check takes off what a busy machine may have caused


def leaves_zombies():
    """54: waits for its own child only."""
    from stoker.contract.outcome import exit_code_of
    from stoker.runtime.watch import _StepRun

    def reap(self):
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if pid:
            self._exit_code = exit_code_of(status)

    _StepRun._reap = reap


_SITE = "/opt/venv/lib/python3*/site-packages"
_LABELS = ("title", "description", "version", "revision", "licenses", "base.name", "base.digest")

FAULTS = {51: starts_slowly, 54: leaves_zombies}
IMAGES = {
    50: (
        "a user's credentials were copied into the image.",
        "RUN mkdir /root/.aws && echo '[default]' > /root/.aws/credentials",
    ),
    52: (
        "there are neither labels nor an SBOM.",
        "RUN rm /opt/stoker/sbom.cdx.json\nLABEL "
        + " ".join(f'org.opencontainers.image.{name}=""' for name in _LABELS),
    ),
    53: ("a package that boto3 needs is gone.", f"RUN rm -r {_SITE}/jmespath*"),
}

ALSO: dict[int, dict[str, set[int]]] = {53: {"boto3 is what fetches code from S3": {20}}}

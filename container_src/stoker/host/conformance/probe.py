"""What a probe script found, told through a file: launchers split, prefix and mix log lines."""

from __future__ import annotations

import json
from typing import Any

from stoker.host.conformance.check import Failed, require
from stoker.host.conformance.lab import Container
from stoker.host.conformance.opt_ml import OptMl

_FILE = "output/data/probe.json"

TELL = f"""
import json, os, sys, time

def tell(**found):
    with open("/opt/ml/{_FILE}.tmp", "w") as file:
        json.dump(found, file)
    os.replace("/opt/ml/{_FILE}.tmp", "/opt/ml/{_FILE}")
"""
"""Begins every probe script; `tell(key=value)` hands its findings over."""

TELL_ENVIRONMENT = TELL + "tell(environ=dict(os.environ), argv=sys.argv[1:])\n"


def read_told(container: Container, opt_ml: OptMl, what: str = "the job") -> dict[str, Any]:
    """Waits for the end of a container whose probe must have run well.

    Raises:
        Failed: it ended with another code than 0, or the probe did not run.
    """
    ran = container.wait()
    require(ran.code == 0, f"{what}: exit code {ran.code}: {ran.tail(400)}")
    try:
        found: dict[str, Any] = json.loads(opt_ml.read(_FILE))
    except ValueError:
        raise Failed(f"{what}: the script did not run: {ran.tail(400)}") from None
    return {"seconds": ran.seconds, "log": ran.output, **found}

"""What a probe script found, told through a file: launchers split, prefix and mix log lines."""

from __future__ import annotations

import json
from typing import Any

from stoker.host.conformance.check import Failed, require
from stoker.host.conformance.lab import Container
from stoker.host.conformance.opt_ml import OptMl
from stoker.host.conformance.script import Script

_FILE = "output/data/probe.json"
_SHELL_FILES = "output/data/probe"

TELL = f"""
import json, os, sys, time

def tell(**found):
    with open("/opt/ml/{_FILE}.tmp", "w") as file:
        json.dump(found, file)
    os.replace("/opt/ml/{_FILE}.tmp", "/opt/ml/{_FILE}")
"""
"""Begins every probe script; `tell(key=value)` hands its findings over."""

TELL_ENVIRONMENT = Script(
    python=TELL + "tell(environ=dict(os.environ), argv=sys.argv[1:])\n",
    sh="tell_environment",
)


def read_told(container: Container, opt_ml: OptMl, what: str = "the job") -> dict[str, Any]:
    """Waits for the end of a container whose probe must have run well.

    Raises:
        Failed: it ended with another code than 0, or the probe did not run.
    """
    ran = container.wait()
    require(ran.code == 0, f"{what}: exit code {ran.code}: {ran.tail(400)}")
    try:
        found = json.loads(opt_ml.read(_FILE)) if opt_ml.program.endswith("py") else _facts(opt_ml)
    except ValueError:
        raise Failed(f"{what}: the script did not run: {ran.tail(400)}") from None
    return {"seconds": ran.seconds, "log": ran.output, **found}


def _facts(opt_ml: OptMl) -> dict[str, Any]:
    """What a shell script has told: texts that end with NUL, in three files.

    Raises:
        ValueError: it has not come to that.
    """
    if not (opt_ml.root / f"{_SHELL_FILES}.facts").exists():
        raise ValueError("nothing was told")
    argv, environ, facts = (
        opt_ml.read(f"{_SHELL_FILES}.{name}").split("\0")[:-1]
        for name in ("argv", "environ", "facts")
    )
    pairs = dict(fact.split("=", 1) for fact in facts)
    return {"argv": argv, "environ": dict(text.split("=", 1) for text in environ), **pairs}

"""Probes: scripts that look around from inside a job, and how they report what they found."""

from __future__ import annotations

import json
import re
from typing import Any

from stoker.conformance.check import Failed, NotApplicable, require
from stoker.conformance.lab import Container, Lab
from stoker.conformance.opt_ml import OptMl
from stoker.conformance.script import Script

_TORCH = """
import importlib.util
print("PROBE torch=" + ("yes" if importlib.util.find_spec("torch") else "no"), flush=True)
"""


def marks(output: str, key: str) -> list[str]:
    """All values of a key, in the order they were printed."""
    found = re.findall(rf"PROBE {re.escape(key)}=(.*)$", output, re.MULTILINE)
    return [value.strip() for value in found]


def mark(output: str, key: str) -> str:
    """The first value of a key; empty if it was never printed."""
    return next(iter(marks(output, key)), "")


def ends_within(container: Container, seconds: float) -> bool:
    """Waits for the end of a container; False if it is still running."""
    return container.lab.docker("wait", container.id, timeout_seconds=seconds).code == 0


def require_torch(lab: Lab) -> None:
    """Ends the check where there is no torch.

    Raises:
        NotApplicable: the image has none, so nothing is asked of it.
    """
    if mark(lab.run(lab.job(_TORCH)).output, "torch") == "no":
        raise NotApplicable("there is no torch in the image")


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
        raise ValueError("the script reported nothing")
    argv, environ, facts = (
        opt_ml.read(f"{_SHELL_FILES}.{name}").split("\0")[:-1]
        for name in ("argv", "environ", "facts")
    )
    pairs = dict(fact.split("=", 1) for fact in facts)
    return {"argv": argv, "environ": dict(text.split("=", 1) for text in environ), **pairs}

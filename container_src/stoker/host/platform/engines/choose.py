"""Which engine runs the jobs of a root, and why."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Literal

from stoker.host.docker import find_client, require_engine
from stoker.host.failures import EngineMissing
from stoker.host.platform.engines.docker import DockerEngine
from stoker.host.platform.engines.engine import Engine
from stoker.host.platform.engines.process import ProcessEngine
from stoker.host.platform.root import Root

Asked = Literal["auto", "docker", "process"]


def choose_engine(asked: Asked, root: Root, *, environment: Mapping[str, str]) -> Engine:
    """Docker where it answers; else processes, which `reason` says.

    Args:
        asked: what the user wants; "auto" leaves the choice.
        root: whose jobs are run.
        environment: that of the server; processes inherit PATH, HOME and the like.

    Raises:
        EngineMissing: Docker was asked for and none answers, or there is no engine at all.
    """
    if asked == "process":
        return _processes(root, environment, reason="as asked")
    try:
        client = find_client()
        version = require_engine(client)
    except EngineMissing as error:
        if asked == "docker":
            raise
        return _processes(root, environment, reason=f"no container: {error.message}")
    return DockerEngine(root, client=[client], reason=f"Docker {version} answers")


def _processes(root: Root, environment: Mapping[str, str], *, reason: str) -> ProcessEngine:
    if sys.platform != "linux":
        raise EngineMissing(
            f"jobs as processes need Linux, but this is {sys.platform}",
            fix="install and start Docker, then --engine docker",
        )
    return ProcessEngine(root, reason=reason, environment=environment)

"""From a launch to what its keeper runs on this machine. Pure."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import stoker
from stoker.contract.paths import ROOT_VARIABLE
from stoker.host.platform.engines.engine import Launch
from stoker.host.platform.engines.keeper import MARK, Plan
from stoker.host.platform.engines.relocation import relocate, relocate_all

PACKAGES_DIR = str(Path(stoker.__file__).absolute().parents[1])
"""Where this very package lies, for those who do not look into site-packages."""

_LAUNCHER = f"{PACKAGES_DIR}/stoker/runtime/__main__.py"
# Of the server's own environment, a job must not see whose machine this is.
_PRIVATE = ("AWS_", "SM_", "SAGEMAKER_", "STOKER_", "TRAINING_JOB_", "PYTEST_")


def make_plan(
    launch: Launch, *, base_environment: Mapping[str, str], mark: str, gives_names: bool
) -> Plan:
    """What a keeper needs to know.

    Args:
        launch: what the job asks for, in the container's terms.
        base_environment: what a container would have from its image.
        mark: by which all processes of the run are known.
        gives_names: whether the peers are to be found by name; else the machine knows them.
    """
    return Plan(
        job=launch.job,
        host=launch.host,
        attempt=launch.attempt,
        argv=_make_argv(launch),
        environment={
            **base_environment,
            **relocate_all(launch.environment, launch.host_dir),
            ROOT_VARIABLE: str(launch.host_dir),
            MARK: mark,
        },
        folder=str(launch.host_dir),
        names=launch.peers if gives_names else {},
        # Several hosts would be cut off from each other as well.
        isolated=launch.isolated and len(launch.peers) <= 1,
    )


def make_base_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What a job may inherit from the server: PATH, HOME and the like."""
    kept = {name: text for name, text in environment.items() if not name.startswith(_PRIVATE)}
    beside_python = str(Path(sys.executable).parent)
    kept["PATH"] = os.pathsep.join([beside_python, kept.get("PATH", os.defpath)])
    searched = [path for path in kept.get("PYTHONPATH", "").split(os.pathsep) if path]
    # The run has another working directory, and must find this very package.
    absolute = [os.path.abspath(path) for path in (PACKAGES_DIR, *searched)]
    kept["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(absolute))
    return kept


def _make_argv(launch: Launch) -> tuple[str, ...]:
    entrypoint = launch.entrypoint or ()
    argv = tuple(relocate(part, launch.host_dir) for part in (*entrypoint, *launch.command))
    if not entrypoint and argv[0] == "train":
        # As the image starts it: isolated, without site-packages.
        return (sys.executable, "-IS", _LAUNCHER, *argv[1:])
    return argv

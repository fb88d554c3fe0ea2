"""Installing what the user's code needs, without touching what the image promises."""

from __future__ import annotations

import os
import sys

from stoker.contract.files import read_regular
from stoker.runtime.step import HELPERS, LaunchStep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from stoker.contract.job import Job
    from stoker.runtime.program import Program

CONSTRAINTS = "/opt/stoker/constraints.txt"
"""Versions of torch and its friends in this image, written when it was built."""

UNPROTECTED_VARIABLE = "STOKER_UNPROTECTED"
"""Set to 1 by a user who wants requirements.txt to replace torch after all."""

_SETUPTOOLS = os.path.join(os.path.dirname(__file__), "../../setuptools")
_FIX = (
    "look at pip's lines above; a private index is PIP_INDEX_URL or CA_REPOSITORY_ARN; without a "
    "network bake the packages into the image; torch and its friends are pinned by the image "
    f"({CONSTRAINTS}; {UNPROTECTED_VARIABLE}=1 lifts that)"
)


def make_install_steps(
    job: Job, program: Program, mask: Callable[[str], str]
) -> tuple[LaunchStep, ...]:
    """One pip run for requirements.txt, one for the project itself, as far as they are there."""
    asked: list[tuple[str, list[str]]] = []
    if program.requirements is not None:
        asked.append(("install requirements", ["-r", program.requirements]))
    if program.is_package:
        # pip would download setuptools again to build it, which network isolation forbids.
        offline = program.needs_setuptools_only and os.path.isdir(_SETUPTOOLS)
        asked.append(
            ("install the package", [*(["--no-build-isolation"] if offline else []), "."])
        )
    if not asked:
        return ()
    from stoker.runtime.pip_output import PipOutput, find_progress_bar  # most jobs need neither

    bar = ("--progress-bar", find_progress_bar())
    return tuple(
        LaunchStep(
            name=name,
            argv=(*_pip(job), "install", *bar, *_options(job), *arguments),
            environ=_environ(job),
            folder=program.folder,
            mask=PipOutput(mask),
            fix=_FIX,
        )
        for name, arguments in asked
    )


def read_constraints() -> str:
    """What the image holds; nothing outside of one."""
    try:
        return read_regular(CONSTRAINTS, follow_links=True).decode("utf-8", "replace")
    except OSError:
        return ""


def _pip(job: Job) -> list[str]:
    repository = job.environ.get("CA_REPOSITORY_ARN")
    if repository:
        return [sys.executable, "-I", HELPERS, "install", repository]
    return [sys.executable, "-m", "pip"]


def _options(job: Job) -> list[str]:
    options = ["--no-input", "--disable-pip-version-check"]
    protect = os.path.isfile(CONSTRAINTS) and job.environ.get(UNPROTECTED_VARIABLE) != "1"
    return [*options, "-c", CONSTRAINTS] if protect else options


def _environ(job: Job) -> dict[str, str]:
    environ = dict(job.environ)
    if environ.get("PIP_CONSTRAINT") == CONSTRAINTS:
        del environ["PIP_CONSTRAINT"]  # the image's own default; _options decides about it
    # Debian marks its Python as managed; in a container of one job that guards nothing.
    environ.setdefault("PIP_BREAK_SYSTEM_PACKAGES", "1")
    environ.setdefault("PIP_ROOT_USER_ACTION", "ignore")
    cache = _warm_pool(job)
    if cache is not None:
        environ.setdefault("PIP_CACHE_DIR", f"{cache}/pip")
    elif "PIP_CACHE_DIR" not in environ:
        environ.setdefault("PIP_NO_CACHE_DIR", "1")  # it will not be read again
    return environ


def _warm_pool(job: Job) -> str | None:
    """The folder that the next job of this warm pool will see too."""
    named = job.environ.get("SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY")
    folder = named or job.paths.warm_pool_dir
    return folder if os.path.isdir(folder) and os.access(folder, os.W_OK) else None

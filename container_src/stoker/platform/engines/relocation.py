"""A launch for the process engine: /opt/ml relocated, environment and command adapted. Pure."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import stoker
from stoker.contract.files import write_atomically
from stoker.contract.paths import OPT_ML, ROOT_VARIABLE, Paths
from stoker.platform.engines.engine import EngineFailed, Launch, make_overlay_options
from stoker.platform.engines.keeper import MARK, KeeperPlan
from stoker.platform.model.mount import Mount

# /opt/ml as a whole path or the beginning of one, not as the end of another.
_OPT_ML = re.compile(rf"(?<![\w./-]){OPT_ML}(?![\w.-])")


def relocate(text: str, root: Path) -> str:
    """A text that names paths in the container, naming those of this machine instead."""
    return _OPT_ML.sub(lambda _: str(root), text)


def relocate_all(texts: Mapping[str, str], root: Path) -> dict[str, str]:
    """The same for the values of a mapping."""
    return {name: relocate(text, root) for name, text in texts.items()}


def relocate_config_files(root: Path) -> None:
    """Paths in the config files, such as that of the checkpoints, lead below the root, too."""
    folders = (Path(Paths(root=str(root)).config_dir), root / "config")
    for file in chain.from_iterable(folder.glob("*.json") for folder in folders):
        before = json.loads(file.read_text())
        after = _relocated(before, root)
        if after != before:
            write_atomically(str(file), json.dumps(after))


def link_mounts(mounts: tuple[Mount, ...], root: Path) -> None:
    """Puts a link where a container would have a mount.

    Raises:
        EngineFailed: it is not below /opt/ml, or something else is there.
    """
    for mount in mounts:
        place = _find_place(mount, root)
        if place.resolve() == mount.source.resolve():
            continue
        _clear(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(mount.source.absolute())


def make_private_mounts(mounts: Sequence[Mount], root: Path) -> tuple[tuple[str, str, str], ...]:
    """What only the run itself sees: overlays, and folders that it cannot write to.

    Raises:
        EngineFailed: one is not below /opt/ml.
    """
    found = []
    for mount in mounts:
        place = _find_place(mount, root)
        place.mkdir(parents=True, exist_ok=True)
        kind = "overlay" if mount.layers else "read-only"
        source = make_overlay_options(mount) if mount.layers else str(mount.source.absolute())
        found.append((kind, source, str(place)))
    return tuple(found)


def show_opt_ml(host_dir: Path, empty_dir: Path) -> tuple[tuple[str, str, str], ...]:
    """Mounts that let a run find its folders by the paths of a container: /opt/ml itself.

    For programs that Stoker's launcher does not start. The machine's own /opt is not
    changed: the run sees it with one folder more.
    """
    place, above = Path(OPT_ML), Path(OPT_ML).parent
    shown = ("bind", str(host_dir.absolute()), OPT_ML)
    if place.is_dir():
        return (shown,)
    if not above.is_dir() or set(",:\\") & set(str(empty_dir)):
        return ()
    (empty_dir / place.name).mkdir(parents=True)
    return (("overlay", f"lowerdir={empty_dir.absolute()}:{above}", str(above)), shown)


def _find_place(mount: Mount, root: Path) -> Path:
    place = Path(relocate(mount.target, root))
    if not mount.target.startswith(f"{OPT_ML}/") or ".." in place.parts:
        raise EngineFailed(
            f"{mount.target} is outside of {OPT_ML}: a process has no folder of its own there",
            fix=f"use a LocalPath below {OPT_ML}, or the Docker engine (--engine docker)",
        )
    return place


def _clear(place: Path) -> None:
    """Removes the link of an attempt before, or the empty folder a mount would cover."""
    try:
        if place.is_symlink():
            place.unlink()
        elif place.exists():
            place.rmdir()
    except OSError as error:
        raise EngineFailed(
            f"{place} cannot be replaced by a link: {error.strerror}",
            fix="remove it, or use the Docker engine (--engine docker)",
        ) from None


def _relocated(value: Any, root: Path) -> Any:  # noqa: ANN401 - JSON of any shape
    if isinstance(value, str):
        return relocate(value, root)
    if isinstance(value, list):
        return [_relocated(item, root) for item in value]
    if isinstance(value, dict):
        return {key: _relocated(item, root) for key, item in value.items()}
    return value


PACKAGES_DIR = str(Path(stoker.__file__).absolute().parents[1])
"""Where this package is, for programs that do not look into site-packages."""

_LAUNCHER = f"{PACKAGES_DIR}/stoker/runtime/__main__.py"
# Of the server's own environment, a job must not see whose machine this is.
_PRIVATE = ("AWS_", "SM_", "SAGEMAKER_", "STOKER_", "TRAINING_JOB_", "PYTEST_")


def make_plan(
    launch: Launch,
    *,
    base_environment: Mapping[str, str],
    mark: str,
    gives_names: bool,
    mounts: tuple[tuple[str, str, str], ...] = (),
) -> KeeperPlan:
    """What a keeper needs to know.

    Args:
        launch: what the job asks for, in the container's terms.
        base_environment: what a container would have from its image.
        mark: by which all processes of the run are known.
        gives_names: whether the peers are to be found by name; else the machine knows them.
        mounts: what the run alone sees, as the keeper reads them.
    """
    return KeeperPlan(
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
        mounts=mounts,
    )


def make_base_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What a job may inherit from the server: PATH, HOME and the like."""
    kept = {name: text for name, text in environment.items() if not name.startswith(_PRIVATE)}
    python_dir = str(Path(sys.executable).parent)
    kept["PATH"] = os.pathsep.join([python_dir, kept.get("PATH", os.defpath)])
    searched = [path for path in kept.get("PYTHONPATH", "").split(os.pathsep) if path]
    # The run has another working directory, and must find this very package.
    absolute = [os.path.abspath(path) for path in (PACKAGES_DIR, *searched)]
    kept["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(absolute))
    return kept


def _make_argv(launch: Launch) -> tuple[str, ...]:
    entrypoint = launch.entrypoint or ()
    argv = tuple(relocate(part, launch.host_dir) for part in (*entrypoint, *launch.command))
    if not argv:
        raise EngineFailed(
            "the request has neither ContainerEntrypoint nor ContainerArguments: without an image "
            "there is no command",
            fix="name one, or use the Docker engine (--engine docker)",
        )
    if not entrypoint and argv[0] == "train":
        # As the image starts it: isolated, without site-packages.
        return (sys.executable, "-IS", _LAUNCHER, *argv[1:])
    return argv

"""/opt/ml where there is no container: the same tree, elsewhere on this machine."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stoker.contract.files import write_atomically
from stoker.contract.paths import OPT_ML, Paths
from stoker.host.platform.engines.engine import EngineFailed, Mount

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
    for file in Path(Paths(root=str(root)).config_dir).glob("*.json"):
        before = json.loads(file.read_text())
        after = _relocated(before, root)
        if after != before:
            write_atomically(str(file), json.dumps(after))


def link_mounts(mounts: tuple[Mount, ...], root: Path) -> None:
    """Puts a link where a container would have a mount.

    Raises:
        EngineFailed: it is not below /opt/ml, or something else lies there.
    """
    for mount in mounts:
        place = Path(relocate(mount.target, root))
        if not mount.target.startswith(f"{OPT_ML}/") or ".." in place.parts:
            raise EngineFailed(
                f"{mount.target} is outside of {OPT_ML}: a process has no folder of its own there",
                fix=f"use a LocalPath below {OPT_ML}, or the Docker engine (--engine docker)",
            )
        if place.resolve() == mount.source.resolve():
            continue
        _clear(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(mount.source.absolute())


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

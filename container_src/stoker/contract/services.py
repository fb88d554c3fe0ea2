"""What the platform does in addition to training: sync, TensorBoard, debugger, profiler."""

from __future__ import annotations

import os

from stoker.contract.files import read_object
from stoker.contract.paths import OPT_ML
from stoker.contract.record import Record
from stoker.errors import ConfigInvalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from stoker.contract.paths import Paths

# The variables by which the SDKs' local mode and smdebug name another file.
_OVERRIDES = {
    "checkpointconfig.json": "CHECKPOINT_CONFIG_FILE_PATH",
    "tensorboardoutputconfig.json": "TENSORBOARD_CONFIG_FILE_PATH",
    "debughookconfig.json": "SMDEBUG_CONFIG_FILE_PATH",
    "profilerconfig.json": "SMPROFILER_CONFIG_PATH",
}


class Services(Record):
    """The optional config files. An empty mapping means: not configured."""

    checkpoint_dir: str
    """Where checkpoints are synced; the script's `SM_CHECKPOINT_DIR`."""
    tensorboard_dir: str
    """Where event files are synced; the script's `SM_TENSORBOARD_DIR`."""
    checkpoint: Mapping[str, Any] = {}
    tensorboard: Mapping[str, Any] = {}
    debug_hook: Mapping[str, Any] = {}
    profiler: Mapping[str, Any] = {}
    complaints: tuple[str, ...] = ()
    """Files that could not be used: they must never disturb a run, so they are only told."""


def read_services(paths: Paths, environ: Mapping[str, str]) -> Services:
    """Reads the optional files. A broken one counts as absent and becomes a complaint."""
    complaints: list[str] = []

    def read(name: str) -> Mapping[str, Any]:
        override = environ.get(_OVERRIDES[name])
        try:
            return read_object(override or paths.config_file(name))
        except ConfigInvalid as error:
            complaints.append(error.message)
            return {}

    checkpoint = read("checkpointconfig.json")
    tensorboard = read("tensorboardoutputconfig.json")
    return Services(
        checkpoint_dir=_local_path(checkpoint, paths.checkpoint_dir),
        tensorboard_dir=_local_path(tensorboard, paths.tensorboard_dir),
        checkpoint=checkpoint,
        tensorboard=tensorboard,
        debug_hook=read("debughookconfig.json"),
        profiler=read("profilerconfig.json"),
        complaints=tuple(complaints),
    )


def name_moved_files(paths: Paths) -> dict[str, str]:
    """The variables by which smdebug finds the files that are there, if not under /opt/ml."""
    # smdebug looks there by itself.
    if paths.root == OPT_ML:
        return {}
    files = {variable: paths.config_file(name) for name, variable in _OVERRIDES.items()}
    return {variable: str(file) for variable, file in files.items() if os.path.exists(file)}


def _local_path(config: Mapping[str, Any], default: str) -> str:
    value = config.get("LocalPath")
    return value if isinstance(value, str) and value and "\0" not in value else default

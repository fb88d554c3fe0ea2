"""A container that waits for its run: started with the image's files, without a command yet.

The image needs `/bin/sh`, `cat`, `rm` and `env`. What the container is to run comes as a script in
a folder that only it and the platform see; once the script is read, that folder is empty.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from stoker.contract.paths import OPT_ML
from stoker.platform.engines.container import (
    ROOT_LABEL,
    get_code_options,
    get_fixed_options,
    make_mount_options,
)
from stoker.platform.engines.engine import Launch
from stoker.platform.model.mount import Mount

STANDBY_LABEL = "stoker.standby"
_CONTROL = "/run/stoker"
_SCRIPT, _BELL = "run", "bell"
# `read` waits in the opening of a FIFO, without any use of the processor.
_HOLDER = (
    f"while [ ! -f {_CONTROL}/{_SCRIPT} ]; do read -r _ < {_CONTROL}/{_BELL} || exit 1; done\n"
    # Not in a variable: if the image has one of that name, the job would get the command in it.
    f'set -- "$(cat {_CONTROL}/{_SCRIPT})"; rm -f {_CONTROL}/{_SCRIPT} {_CONTROL}/{_BELL}\n'
    'eval "$1"'
)
# What the waiting shell itself may have put into the environment.
_NOT_THE_JOBS = ("OLDPWD", "PWD", "SHLVL", "_")
# A shell sets these itself, whatever its environment says; none of them is a key.
_SHELLS_OWN = re.compile("BASH.*|E?UID|GROUPS|IFS|LINENO|OPT.*|PATH|PPID|RANDOM|SECONDS|SHELLOPTS")
_LOOK_SECONDS = 0.005


def make_standby_arguments(
    launch: Launch, *, container: str, root_id: str, gpus: bool
) -> list[str]:
    """What follows `docker create`; the folders of the launch's standby are made."""
    standby = launch.standby
    if standby is None:
        raise ValueError(f"{launch.name} has no folder to wait in")
    _make_control(standby.control_dir)
    mounts = [
        Mount(source=standby.host_dir, target=OPT_ML),
        Mount(source=standby.control_dir, target=_CONTROL),
        *launch.mounts,
    ]
    return [
        *("--name", container, "--label", f"{ROOT_LABEL}={root_id}"),
        *("--label", f"{STANDBY_LABEL}={standby.name}"),
        *get_fixed_options(launch, gpus=gpus),
        *get_code_options(launch),
        *(option for mount in mounts for option in make_mount_options(mount)),
        *("--entrypoint", "/bin/sh", launch.image, "-c", _HOLDER),
    ]


def hand_over(
    launch: Launch, image_entrypoint: Sequence[str], is_running: Callable[[], bool], seconds: float
) -> bool:
    """Gives a waiting container its command; True once it has taken it.

    Done again after a crash, it gives the same command, or finds that it was taken.
    """
    if launch.standby is None:
        return False
    control, deadline = launch.standby.control_dir, time.monotonic() + seconds
    if (control / _BELL).exists():
        part = control / f"{_SCRIPT}.part"
        part.write_text(make_script(launch, image_entrypoint))
        # In one step: the shell must not read half of it.
        part.rename(control / _SCRIPT)
    while (control / _BELL).exists():
        _ring(control / _BELL)
        if time.monotonic() > deadline or not is_running():
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def make_script(launch: Launch, image_entrypoint: Sequence[str]) -> str:
    """Shell commands that replace the shell by the run.

    Variables hold keys: every user of the machine could read them in the command of `env`.
    """
    command = [*(launch.entrypoint or image_entrypoint), *launch.command]
    unset = [part for name in _NOT_THE_JOBS for part in ("-u", name)]
    exports, variables = [], []
    for name, text in launch.environment.items():
        if _SHELLS_OWN.fullmatch(name):
            variables.append(f"{name}={text}")
        else:
            exports.append(f"export {name}={shlex.quote(text)}")
    return "\n".join([*exports, shlex.join(["exec", "env", *unset, *variables, *command])])


def _make_control(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o777)  # an image may have a user of its own; the folder above is private
    (folder / _SCRIPT).unlink(missing_ok=True)
    with suppress(FileExistsError):
        os.mkfifo(folder / _BELL)
    # mkfifo's mode is cut by the umask.
    (folder / _BELL).chmod(0o666)


def _ring(bell: Path) -> None:
    with suppress(OSError):  # it is not listening yet, or not any more
        handle = os.open(bell, os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(handle, b"\n")
        finally:
            os.close(handle)

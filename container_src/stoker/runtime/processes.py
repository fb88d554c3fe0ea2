"""The processes of the container, as /proc shows them, and which of them a signal is for."""

from __future__ import annotations

import os

from stoker.runtime.signals import SIGTERM

_SHELLS = {"sh", "bash", "dash", "ash", "zsh", "ksh"}
_DRIVERS = "/sm_drivers/"
_TOOLKIT = "sagemaker_training.cli.train"


def recipients(pid: int) -> list[int]:
    """Who gets a stop signal meant for a process: the first that will do something with it.

    Shells without a trap, the SDK v3 drivers and the stock toolkit would die at once, or swallow
    it, and leave the user's program behind: their children are told instead.
    """
    return _first_listeners(pid, _children())


def descendants(pid: int) -> list[int]:
    """All living processes below one, nearest first."""
    children = _children()
    found: list[int] = []
    queue = [pid]
    while queue:
        below = children.get(queue.pop(0), [])
        found += below
        queue += below
    return found


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal; without one SIGUSR1 would kill it."""
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"SigCgt:"):
            return bool(int(line.split()[1], 16) & (1 << (number - 1)))
    return False


def _first_listeners(pid: int, children: dict[int, list[int]]) -> list[int]:
    below = children.get(pid, [])
    if not below or not _is_wrapper(pid):
        return [pid]
    return [listener for child in below for listener in _first_listeners(child, children)]


def _is_wrapper(pid: int) -> bool:
    argv = _command_line(pid)
    if any(_DRIVERS in argument or _TOOLKIT in argument for argument in argv):
        return True
    name = os.path.basename(argv[0]).lstrip("-") if argv else ""
    return name in _SHELLS and not catches(pid, SIGTERM)


def _command_line(pid: int) -> list[str]:
    return _read(f"/proc/{pid}/cmdline").decode("utf-8", "replace").split("\0")[:-1]


def _children() -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            # The command in parentheses may hold spaces and parentheses itself.
            fields = _read(f"/proc/{name}/stat").rpartition(b")")[2].split()
            if len(fields) > 1:
                children.setdefault(int(fields[1]), []).append(int(name))
    return children


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:  # it ended meanwhile
        return b""

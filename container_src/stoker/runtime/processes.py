"""The processes of the container, as /proc shows them, and which of them a signal is for."""

from __future__ import annotations

import os

_SHELLS = {"sh", "bash", "dash", "ash", "zsh", "ksh"}
_DRIVERS = "/sm_drivers/"
_TOOLKIT = "sagemaker_training.cli.train"


def recipients(pid: int, number: int) -> list[int]:
    """Who gets a stop signal meant for a process: those that will do something with it.

    A shell, the SDK v3 drivers and the stock toolkit would end at once, or ignore it, and leave
    the user's script running: their children get the signal instead, if they have a handler. With
    `python train.py | tee log` only python gets it. Any other program gets it itself: its
    children may be helpers. If it ends, `watch` signals those that it leaves running.
    """
    return _listeners(pid, number, _children())


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
            # A mask in hexadecimal: signal n is bit n - 1.
            return bool(int(line.split()[1], 16) & (1 << (number - 1)))
    return False


def _listeners(pid: int, number: int, children: dict[int, list[int]]) -> list[int]:
    if not _is_wrapper(pid):
        return [pid]
    started = children.get(pid, [])
    below = [found for child in started for found in _listeners(child, number, children)]
    listening = [found for found in below if catches(found, number)]
    # A shell forks before it starts a program: for a moment its copy seems to listen, too.
    own = _command_line(pid)
    copies_only = all(_command_line(found) == own for found in listening)
    if catches(pid, number) and copies_only:
        return [*listening, pid]
    return listening or below or [pid]


def _is_wrapper(pid: int) -> bool:
    argv = _command_line(pid)
    if any(_DRIVERS in argument or _TOOLKIT in argument for argument in argv):
        return True
    # A login shell is called "-bash".
    return bool(argv) and os.path.basename(argv[0]).lstrip("-") in _SHELLS


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

"""Faults of the group `entry`: one for each check (see faults.py).

`FAULTS` patches the launcher inside the container; `IMAGES` adds lines to the Dockerfile; `ALSO`
declares, with the reason, which other checks a fault fails (`make cross` tries it).
"""

from __future__ import annotations

import os
import sys


def train_does_nothing():
    """1: exits 0 without running the script."""
    sys.exit(0)


def shell_is_pid_1():
    """2: a shell stays in front."""
    if os.environ.get("BEHIND_A_SHELL") != "1":
        os.environ["BEHIND_A_SHELL"] = "1"
        os.execv("/bin/sh", ["sh", "-c", f"{sys.argv[0]}; exit $?"])


def wants_an_init():
    """3: refuses to be PID 1."""
    if os.getpid() == 1:
        sys.exit("train: an init must be PID 1")


def trusts_the_mode():
    """6: decides by its mode whether input/config can be read, though root reads it anyway."""
    if not os.stat("/opt/ml/input/config").st_mode & 0o111:
        sys.exit("train: the configuration is unreadable")


FAULTS = {1: train_does_nothing, 2: shell_is_pid_1, 3: wants_an_init, 6: trusts_the_mode}
IMAGES = {
    4: (
        "PATH is set by the entrypoint, so an own one gets the system's Python, without torch.",
        'ENV PATH=/usr/bin:/bin\nENTRYPOINT ["/usr/bin/env", "PATH=/opt/venv/bin:/usr/bin:/bin"]',
    ),
    5: ("there is no pip on PATH.", "RUN rm /opt/venv/bin/pip*"),
    7: (
        "`train` lives where the platform mounts.",
        "RUN mv /opt/venv/bin/train /opt/ml/code/ && ln -s /opt/ml/code/train /opt/venv/bin/train",
    ),
    8: (
        "a piece of the driver has come along.",
        "RUN echo driver > /usr/lib/libcuda.so.580.65.06",
    ),
    9: (
        "`train` is a program for another machine.",
        r"RUN printf '\177ELF\002\001\001%0100d' 0 > /opt/venv/bin/train",
    ),
}

ALSO: dict[int, dict[str, set[int]]] = {
    1: {"no script is started": set(range(2, 55)) - {2, 4, 5, 9, 35, 42, 50, 52}},
    3: {"no script is started": set(range(1, 55)) - {2, 3, 4, 5, 9, 35, 50, 52}},
    2: {"the shell in front does not pass SIGTERM on": {27, 28, 29, 45}},
    4: {"the SDK's drivers are an own entrypoint, and find no pip on that PATH": {5}},
    7: {"`train` is not found": set(range(1, 55)) - {5, 7, 9, 35, 50, 52}},
    9: {"`train` cannot be started": set(range(1, 55)) - {2, 4, 5, 9, 35, 50, 52}},
}

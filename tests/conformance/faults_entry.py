"""Faults of the group `entry`: one per check; some stop `train` and fail others too.

`FAULTS` patches the launcher inside the container; `IMAGES` adds lines to the Dockerfile.
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


def gives_up_root():
    """6: becomes an ordinary user before the configuration is read."""
    os.setgid(65534)
    os.setuid(65534)


FAULTS = {1: train_does_nothing, 2: shell_is_pid_1, 3: wants_an_init, 6: gives_up_root}
IMAGES = {
    # 4: PATH is set by the entrypoint, so an own one gets the system's Python, without torch.
    4: 'ENV PATH=/usr/bin:/bin\nENTRYPOINT ["/usr/bin/env", "PATH=/opt/venv/bin:/usr/bin:/bin"]',
    # 5: there is no pip on PATH.
    5: "RUN rm /opt/venv/bin/pip*",
    # 7: `train` lives where the platform mounts.
    7: "RUN mv /opt/venv/bin/train /opt/ml/code/ && ln -s /opt/ml/code/train /opt/venv/bin/train",
    # 8: a piece of the driver has come along.
    8: "RUN echo driver > /usr/lib/libcuda.so.580.65.06",
    # 9: `train` is a program for another machine.
    9: r"RUN printf '\177ELF\002\001\001%0100d' 0 > /opt/venv/bin/train",
}

"""Starting one child process: its own session, plain signals, two pipes for its output."""

from __future__ import annotations

import fcntl
import os

from stoker.contract.record import Record
from stoker.errors import LaunchFailed
from stoker.runtime.signals import block_signals, restore_defaults, unblock_signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.runtime.step import LaunchStep

_NOT_STARTED = 127  # a shell's code for a program that it cannot start
_PIPE_BYTES = 1 << 20  # the most that Linux allows without privilege


class Child(Record):
    """A running process and the reading ends of its output."""

    pid: int
    stdout: int
    stderr: int


def launch(step: LaunchStep) -> Child:
    """Forks and executes a step. Signals stay blocked until the caller unblocks them.

    Raises:
        LaunchFailed: the program is missing, not executable, or its arguments are too long.
    """
    out_read, out_write = _make_wide_pipe()
    err_read, err_write = os.pipe()
    fault_read, fault_write = os.pipe()  # closed by a successful exec
    # A signal between fork and exec would run our handler in the child: blocked until then.
    block_signals()
    try:
        pid = os.fork()
    except OSError as error:
        unblock_signals()
        raise _launch_failed(step, f"{error.errno}:{error}") from None
    if pid == 0:
        _become(step, out_write, err_write, fault_write)
    for end in (out_write, err_write, fault_write):
        os.close(end)
    # Ends once the child has executed its program, which closes the pipe, or has said why not.
    with os.fdopen(fault_read, "rb") as pipe:
        fault = pipe.read().decode()
    if fault:
        os.waitpid(pid, 0)
        unblock_signals()
        os.close(out_read)
        os.close(err_read)
        raise _launch_failed(step, fault)
    return Child(pid=pid, stdout=out_read, stderr=err_read)


def _make_wide_pipe() -> tuple[int, int]:
    """For what is written between two reads of the pump: else a quick script waits for them."""
    reading, writing = os.pipe()
    try:
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    except OSError:
        return reading, writing  # a user has only so many large ones
    return reading, writing


def _become(step: LaunchStep, stdout: int, stderr: int, fault: int) -> None:
    """In the child: never returns."""
    try:
        os.setsid()  # its own session and group, so that all it started can be killed together
        # In this order: a signal that is pending would meet the parent's handler.
        restore_defaults()
        unblock_signals()
        os.chdir(step.folder)
        # A script that asks a question gets the end of its input, instead of a wait without end.
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        argv = [_encoded(argument) for argument in step.argv]
        environ = {_encoded(name): _encoded(text) for name, text in step.environ.items()}
        os.execvpe(argv[0], argv, environ)  # noqa: S606 - no shell is the point
    except BaseException as error:  # whatever it is, the parent must report it
        number = error.errno if isinstance(error, OSError) else 0
        os.write(fault, f"{number or 0}:{error}".encode("utf-8", "replace"))
    finally:
        # Not sys.exit: the child must run none of the parent's exit handlers.
        os._exit(_NOT_STARTED)


def _launch_failed(step: LaunchStep, fault: str) -> LaunchFailed:
    number, _, text = fault.partition(":")
    # By errno: ENOENT, E2BIG, ENOEXEC, EAGAIN, EACCES.
    fixes = {
        "2": f"{step.argv[0]} is not in the image, or its first line names a missing interpreter",
        "7": "pass fewer or shorter hyperparameters, or put them in a file of an input channel",
        "8": "start a script with a line such as #!/bin/bash, and build for this architecture",
        "11": "the container may start no more processes: raise its limit (--pids-limit)",
        "13": f"make {step.argv[0]} executable: chmod +x",
    }
    return LaunchFailed(f"{step.name} could not be started: {text}", fix=fixes.get(number, ""))


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON allows
        return text.encode("utf-8", "replace")

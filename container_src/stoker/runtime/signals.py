"""Signals the platform sends, and how they reach the right process.

Forwarding happens inside the handler, not in the main loop: a log reader that blocks our
output must not delay a SIGTERM.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from types import FrameType
else:
    import _signal as signal  # the same without enums, which cost a fifth of the start

SIGINT, SIGKILL, SIGTERM = int(signal.SIGINT), int(signal.SIGKILL), int(signal.SIGTERM)
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
DUMP_SIGNAL = signal.SIGUSR1
_HANDLED = {*STOP_SIGNALS, DUMP_SIGNAL, signal.SIGCHLD}


class Signals:
    """Catches what the platform sends.

    Installed first of all: the kernel discards a signal to PID 1 that has no handler.
    """

    def __init__(self) -> None:
        self.stop_signal: int | None = None
        """The first stop signal that came, or None."""
        self.stopped_at = 0.0
        self._is_told = False
        self._forward: Callable[[int], None] | None = None
        self.wake_up, self._wake_write = os.pipe()
        os.set_blocking(self.wake_up, False)
        os.set_blocking(self._wake_write, False)

    def install(self) -> None:
        """From now on signals are noted, forwarded, and wake the main loop."""
        # A full pipe wakes the loop as well as one more byte would.
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for number in STOP_SIGNALS:
            signal.signal(number, self._stop)
        signal.signal(DUMP_SIGNAL, self._dump)
        signal.signal(signal.SIGCHLD, _noted)
        unblock_signals()  # bin/train and bash_env.sh hold them back until now

    def forward_to(self, forward: Callable[[int], None] | None) -> None:
        """Says who gets signals from now on. A stop that came before is delivered at once."""
        self._forward = forward
        if forward is not None and self.stop_signal is not None:
            forward(_as_sent(self.stop_signal))

    def tell_to_stop(self) -> None:
        """Sends the worker a stop of our own. The platform's, if it follows, is the same one:

        to a script that is saving its checkpoint, a second SIGTERM means to die at once.
        """
        if self._forward is not None and self.stop_signal is None and not self._is_told:
            self._is_told = True
            self._forward(SIGTERM)

    def drain(self) -> None:
        """Empties the wake-up pipe after the main loop has woken."""
        try:
            while os.read(self.wake_up, 512):
                pass
        except BlockingIOError:
            return

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        is_first = self.stop_signal is None
        if is_first:
            self.stop_signal, self.stopped_at = number, time.monotonic()
        if self._forward is not None and not (is_first and self._is_told):
            self._forward(_as_sent(number))

    def _dump(self, number: int, _frame: FrameType | None) -> None:
        if self._forward is not None:
            self._forward(number)


def block_signals() -> None:
    """Holds signals back while a child is made: it must not inherit a handler in mid-flight."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)


def unblock_signals() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)


def restore_defaults() -> None:
    """In a fresh child: the dispositions any program expects."""
    # Python ignores the last two, and a program that is executed inherits that.
    for number in (*_HANDLED, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)


def stop_name(number: int) -> str:
    """What people call a stop signal."""
    names = dict(zip(map(int, STOP_SIGNALS), ("SIGTERM", "SIGINT", "SIGHUP"), strict=True))
    return names.get(number, f"signal {number}")


def send(pid: int, number: int) -> None:
    """Signals one process; a process that has ended meanwhile is not an error."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def kill_group(pid: int) -> None:
    """Kills what is left of a process group."""
    try:
        os.killpg(pid, SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _as_sent(number: int) -> int:
    # A terminal that closes (SIGHUP) is a stop like any other; scripts listen for SIGTERM.
    return signal.SIGTERM if number == signal.SIGHUP else number


def _noted(_number: int, _frame: FrameType | None) -> None:
    """SIGCHLD needs a handler of its own for the wake-up pipe to be written."""

"""What long work shows: a line that is redrawn on a terminal, a plain one in a pipe."""

from __future__ import annotations

import io
import os
import pty
import select

from stoker.bus.progress import PLAIN_SECONDS
from stoker.machine.terminal import Terminal


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_a_pipe_gets_one_line_after_ten_silent_seconds():
    pipe, clock = io.StringIO(), Clock()
    terminal = Terminal(pipe, clock=clock)
    for step in range(25):
        clock.now = float(step)
        terminal.progress(f"{step} s")
    assert pipe.getvalue().split("\n")[:-1] == ["10 s", "20 s"]
    terminal.line("another line")
    clock.now = 24 + PLAIN_SECONDS / 2
    terminal.progress("too soon after it")
    assert pipe.getvalue().endswith("another line\n")


def test_a_terminal_redraws_its_line_within_its_width_and_removes_it():
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as stream:
        terminal = Terminal(stream)
        terminal.progress("1 MB of 2 MB")
        terminal.progress("x" * 500)
        terminal.progress("")
        stream.flush()
        shown = ""
        # The kernel passes on what was written in pieces of its own choice.
        while shown.count("\r\x1b[K") < 2 and select.select([ours], [], [], 60)[0]:
            shown += os.read(ours, 10_000).decode()
    os.close(ours)
    first, second, last = shown.split("\r\x1b[K")
    assert (first, last) == ("1 MB of 2 MB", "")
    assert set(second) == {"x"}
    assert len(second) < 500

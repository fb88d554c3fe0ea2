"""Why a worker failed: the last error first, with rank and host, and what to do.

Three sources, best first: the crash files its processes left (crash.py), torchrun's own summary,
the tail of the log.
"""

from __future__ import annotations

import re
import signal

from stoker.contract.crash import Crash, read_crashes
from stoker.contract.record import Record
from stoker.runtime.hints import find_hint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.contract.job import Job
    from stoker.runtime.watch import Ended

_TRACEBACK = "Traceback (most recent call last):"
_RANK_MARK = re.compile(r"^\[rank(\d+)\]:\s?", re.MULTILINE)
# torchrun reports a failed worker by raising itself; that traceback is never the cause.
_TORCHRUN_ERRORS = ("ChildFailedError", "SignalException", "RendezvousClosedError")
_ROOT_CAUSE = re.compile(
    r"Root Cause.*?rank\s*:\s*(?P<rank>\d+).*?exitcode\s*:\s*(?P<code>-?\d+)", re.DOTALL
)
_LOG_LINE = re.compile(r"[EWIF]\d{4} \d\d:")  # torchrun's own, which follows at once
_NESTED = "Original Traceback (most recent call last):"
_LAST_LINES = 5
_LAST_FRAMES = 3
_LONGEST_ERROR = 500
_LIBRARY = re.compile(r'File "(?:[^"]*/(?:site|dist)-packages/|[^"]*/lib/python3|<frozen )')
_CGROUP_FILES = (
    ("/sys/fs/cgroup/memory.events", "oom_kill"),
    ("/sys/fs/cgroup/memory/memory.oom_control", "oom_kill"),
)


class Diagnosis(Record):
    """The reason of a failure, ready for the failure file."""

    reason: str
    exit_code: int
    """The user's own, also when torchrun has made a 1 of it."""


def diagnose(job: Job, ended: Ended, *, crash_dir: str) -> Diagnosis:
    """Finds the cause of a non-zero end."""
    root = _ROOT_CAUSE.search(ended.stderr_tail) or _ROOT_CAUSE.search(ended.stdout_tail)
    code, rank = ended.exit_code, ""
    if root is not None:
        signed = int(root["code"])
        code, rank = (128 - signed if signed < 0 else signed) or 1, root["rank"]
    error, trace = _from_log(ended, code)
    crash = _choose(read_crashes(crash_dir), ended.pid)
    if crash is not None and (root is None or not crash.rank or crash.rank == rank):
        error, trace, rank = crash.error, crash.traceback, crash.rank
    by_signal = _signal_text(code)
    if by_signal and crash is None and not trace:
        error = f"{by_signal}. Last line: {error}" if error else by_signal
    hint = find_hint(
        error if trace else f"{error}\n{ended.stderr_tail[-2000:]}",
        channels=list(job.channels.by_name),
        out_of_memory=code == 128 + signal.SIGKILL and _was_out_of_memory(),
    )
    where = ", ".join(filter(None, (f"rank {rank}" if rank else "", job.cluster.current_host)))
    return Diagnosis(reason=_compose(error, where, code, hint, trace), exit_code=code)


def _compose(error: str, where: str, code: int, hint: str, trace: str) -> str:
    lines = [f"{_condensed(error) or 'no error was printed'} ({where}, exit code {code})"]
    if hint:
        lines.append(f"hint: {hint}")
    if trace:
        lines.append(_innermost(trace))
    return "\n".join(lines)


def _condensed(error: str) -> str:
    """What an error says, short enough to leave room for the hint."""
    if _NESTED in error:  # a DataLoader worker's error, wrapped with its whole traceback
        lines = [line for line in error.splitlines() if line.strip()]
        error = f"{lines[-1]}\n{lines[0]}"
    if len(error) <= _LONGEST_ERROR:
        return error
    return f"{error[: _LONGEST_ERROR - 100]} … {error[-90:]}"


def _innermost(trace: str) -> str:
    """The last frames of a traceback, the user's own rather than a library's."""
    lines = [line for line in trace.splitlines() if line.startswith("  ") and line.strip("~^ ")]
    starts = [i for i, line in enumerate(lines) if line.startswith('  File "')]
    frames = ["\n".join(lines[a:b]) for a, b in zip(starts, [*starts[1:], None], strict=True)]
    own = [frame for frame in frames if not _LIBRARY.search(frame)]
    return "\n".join((own or frames)[-_LAST_FRAMES:])


def _choose(crashes: list[Crash], pid: int) -> Crash | None:
    """The first crash of the worker's own processes; else of the last that crashed below it.

    Processes with one parent are ranks: the first of them is the cause, the rest follows.
    """
    causes = [crash for crash in crashes if not _is_torchruns(crash.error)]
    if not causes:
        return None
    itself = [crash for crash in causes if crash.pid == pid]
    ranks = [crash for crash in causes if crash.parent_pid == pid]
    last = [crash for crash in causes if crash.parent_pid == causes[-1].parent_pid]
    return (itself or ranks or last)[0]


def _from_log(ended: Ended, code: int) -> tuple[str, str]:
    """The last traceback of the log as (error, frames), or its last lines."""
    for tail in (ended.stderr_tail, ended.stdout_tail):
        text = _RANK_MARK.sub("", tail)
        for trace in reversed(text.split(_TRACEBACK)[1:]):
            error = _error_of(trace)
            if error and not _is_torchruns(error):
                return error, f"{_TRACEBACK}{trace}"
    for tail in (ended.stderr_tail, ended.stdout_tail):
        lines = [line.strip() for line in tail.splitlines() if line.strip()]
        mistakes = [line for line in lines if ": error: " in line]  # argparse, compilers
        if mistakes:
            return mistakes[-1], ""
        if lines:
            return "\n".join(lines[-(1 if code > 128 else _LAST_LINES) :]), ""
    return "", ""


def _error_of(trace: str) -> str:
    """The error lines below the frames of one traceback."""
    lines = trace.splitlines()[1:]
    start = next((i for i, line in enumerate(lines) if line[:1].strip()), None)
    if start is None:
        return ""
    kept = []
    for line in lines[start : start + _LAST_LINES]:
        if not line.strip() or _LOG_LINE.match(line):
            break
        kept.append(line.rstrip())
    return "\n".join(kept)


def _is_torchruns(error: str) -> bool:
    return error.split(":")[0].split(".")[-1].strip() in _TORCHRUN_ERRORS


def _signal_text(code: int) -> str:
    if code <= 128:
        return ""
    try:
        name = signal.Signals(code - 128).name
    except ValueError:
        return ""
    return f"killed by {name}"


def _was_out_of_memory() -> bool:
    """Whether the kernel killed something of this container for memory."""
    for file, key in _CGROUP_FILES:
        try:
            with open(file) as opened:
                fields = dict(line.split() for line in opened)
        except (OSError, ValueError):
            continue
        if int(fields.get(key, 0)) > 0:
            return True
    return False

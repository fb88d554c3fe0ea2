"""Why a worker failed: the last error first, with rank and host, and what to do.

What ended the job is the reason, not what was merely printed: a signal; the exception of the
process that failed (its crash file, see bus.crash); else the last lines of the log.
"""

from __future__ import annotations

import os
import re
import signal

from stoker.bus.crash import Crash, read_crashes
from stoker.contract.files import read_regular
from stoker.contract.record import Record
from stoker.runtime.hints import find_hint
from stoker.runtime.requirements import CONSTRAINTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from stoker.contract.job import Job
    from stoker.runtime.watch import Ended

_TRACEBACK = "Traceback (most recent call last):"
# In the message itself: torch wraps the error of a DataLoader's worker with its whole traceback.
_NESTED = "Original Traceback (most recent call last):"
# torch.distributed begins each line of an uncaught traceback with its rank: "[rank0]: …".
_RANK_MARK = re.compile(r"^\[rank(\d+)\]:\s?", re.MULTILINE)
# torchrun reports a failed worker by raising itself; that is never the cause.
_TORCHRUN_ERRORS = ("ChildFailedError", "SignalException", "RendezvousClosedError")
# torchrun's own log lines: level and date as glog writes them, such as "E1119 02:10:44.120 …".
_TORCHRUN_LINE = re.compile(r"^[EWIF]\d{4} \d\d:.*$", re.MULTILINE)
_TORCHRUN_TRACE = re.compile(
    r"Traceback \(most recent call last\):\n(?:(?!Traceback).)*ChildFailedError:.*", re.DOTALL
)
_ROOT_CAUSE = re.compile(
    r"Root Cause.*?rank\s*:\s*(?P<rank>\d+).*?exitcode\s*:\s*(?P<code>-?\d+)", re.DOTALL
)
_LIBRARY = re.compile(r'File "(?:[^"]*/(?:site|dist)-packages/|[^"]*/lib/python3|<frozen )')
_MOST_SOURCES, _MOST_SOURCE_BYTES = 10, 1024 * 1024
_LAST_LINES, _LAST_FRAMES, _LONGEST_ERROR = 5, 3, 500
_UNCAUGHT = 1  # Python's exit code for an uncaught exception
# Version 2 and version 1; a container sees its own group as the root.
_CGROUP_FILES = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")


class Diagnosis(Record):
    """The reason of a failure, ready for the failure file."""

    reason: str
    exit_code: int
    """The user's own, also when torchrun has made a 1 of it."""
    is_exit: bool = False
    """It left by itself, with that code: no exception, no signal."""


class _Cause(Record):
    """What ended the job."""

    error: str
    frames: str = ""
    rank: str = ""
    manner: str = ""
    """How it ended, where the error does not say it."""


def diagnose(
    job: Job, ended: Ended, *, crash_dir: str, launcher: str, mask: Callable[[str], str]
) -> Diagnosis:
    """Finds the cause of a non-zero end.

    Secrets are masked before anything is shortened: half a secret is one, too.
    """
    ended = ended.replace(stdout_tail=mask(ended.stdout_tail), stderr_tail=mask(ended.stderr_tail))
    rank = ""
    if launcher in ("torchrun", "drivers"):
        ended, rank = _see_through_torchrun(ended)
    crash = _choose(read_crashes(crash_dir), ended, rank, launcher)
    cause = _find_cause(ended, crash, rank)
    cause = cause.replace(error=mask(cause.error), frames=mask(cause.frames))
    hint = find_hint(
        cause.error,
        channels=list(job.channels.by_name),
        out_of_memory=_was_out_of_memory(),
        sources=_read_sources(cause.frames),
        is_image=os.path.exists(CONSTRAINTS),
    )
    reason = _compose(cause, job.cluster.current_host, ended.exit_code, hint)
    is_exit = not (cause.frames or crash or ended.by_signal)
    return Diagnosis(reason=reason, exit_code=ended.exit_code, is_exit=is_exit)


def _see_through_torchrun(ended: Ended) -> tuple[Ended, str]:
    """The end of the first worker that failed, and its rank, from torchrun's own summary."""
    found = _ROOT_CAUSE.search(ended.stderr_tail) or _ROOT_CAUSE.search(ended.stdout_tail)
    if found is None:
        return ended, ""
    signed = int(found["code"])
    return ended.replace(
        exit_code=(128 - signed if signed < 0 else signed) or ended.exit_code,
        by_signal=max(0, -signed),
        stdout_tail=_without_torchrun(ended.stdout_tail),
        stderr_tail=_without_torchrun(ended.stderr_tail),
    ), found["rank"]


def _without_torchrun(text: str) -> str:
    return _TORCHRUN_LINE.sub("", _TORCHRUN_TRACE.sub("", text))


def _choose(crashes: list[Crash], ended: Ended, rank: str, launcher: str) -> Crash | None:
    """The crash file of the process that ended the job, or None.

    Other processes crash too, and are tolerated: probes, helpers, a command followed by `|| true`.
    """
    causes = [crash for crash in crashes if not _is_torchruns(crash.error)]
    # A killed process leaves no crash file: one that is there is of a crash that was tolerated.
    if ended.by_signal:
        return None
    if rank:
        return next((crash for crash in causes if crash.rank == rank), None)
    # No summary in the tail: the first rank that crashed is the cause, the others lost their peer.
    if launcher == "torchrun":
        return causes[0] if causes else None
    own = [crash for crash in causes if crash.pid == ended.pid]
    if own or launcher == "python":
        return own[0] if own else None
    # Below a shell, the drivers or the toolkit it was the last, if its exit code came through.
    return causes[-1] if causes and ended.exit_code == _UNCAUGHT else None


def _find_cause(ended: Ended, crash: Crash | None, rank: str) -> _Cause:
    if ended.by_signal:
        last = _RANK_MARK.sub("", ended.stderr_tail or ended.stdout_tail).strip().splitlines()[-1:]
        said = "".join(f". Last line: {line.strip()}" for line in last)
        return _Cause(error=f"killed by {_signal_name(ended.by_signal)}{said}", rank=rank)
    if crash is not None:
        return _Cause(error=crash.error, frames=crash.traceback, rank=crash.rank)
    # stderr first: stdout has the last words only where a wrapper has merged the two.
    for tail in (ended.stderr_tail, ended.stdout_tail):
        text = _RANK_MARK.sub("", tail).strip()
        if text:
            return _last_words(text, rank)
    return _Cause(error="", rank=rank)


def _last_words(text: str, rank: str) -> _Cause:
    """A traceback if the log ends with one, else its last lines."""
    before, mark, trace = text.rpartition(_TRACEBACK)
    while mark and _is_torchruns(_error_of(trace)):
        text = before.strip()
        before, mark, trace = text.rpartition(_TRACEBACK)
    error = _error_of(trace) if mark else ""
    if error and trace.rstrip().endswith(error):
        return _Cause(error=error, frames=trace.rpartition(error)[0], rank=rank)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # argparse prints its usage first and what was wrong last.
    is_argparse = bool(lines) and ": error: " in lines[-1]
    kept = lines[-1:] if is_argparse else lines[-_LAST_LINES:][::-1]
    return _Cause(error="\n".join(kept), rank=rank, manner="" if is_argparse else ", no exception")


def _error_of(trace: str) -> str:
    """The error line below the frames of one traceback."""
    return next((line.strip() for line in trace.splitlines()[1:] if line[:1].strip()), "")


def _compose(cause: _Cause, host: str, code: int, hint: str) -> str:
    where = f"rank {cause.rank}, {host}" if cause.rank else host
    error = _condensed(cause.error) or "no error was printed"
    lines = [f"{error} ({where}, exit code {code}{cause.manner})"]
    if hint:
        lines.append(f"hint: {hint}")
    frames = _innermost(cause.frames)
    return "\n".join([*lines, frames] if frames else lines)


def _condensed(error: str) -> str:
    """What an error says, short enough to leave room for the hint."""
    if _NESTED in error:  # a DataLoader worker's error, wrapped with its whole traceback
        lines = [line for line in error.splitlines() if line.strip()]
        error = f"{lines[-1]}\n{lines[0]}"
    if len(error) <= _LONGEST_ERROR:
        return error
    return f"{error[: _LONGEST_ERROR - 100]} … {error[-90:]}"


def _innermost(frames: str) -> str:
    """The last frames of a traceback, the user's own rather than a library's."""
    # Python marks the place of an error below its line by ~ and ^: the failure file has no room.
    lines = [line for line in frames.splitlines() if line.startswith("  ") and line.strip("~^ ")]
    starts = [i for i, line in enumerate(lines) if line.startswith('  File "')]
    ends = [*starts[1:], len(lines)]
    found = ["\n".join(lines[a:b]) for a, b in zip(starts, ends, strict=False)]
    own = [frame for frame in found if not _LIBRARY.search(frame)]
    return "\n".join((own or found)[-_LAST_FRAMES:])


def _read_sources(frames: str) -> list[str]:
    """The user's own files among those of a traceback."""
    named = dict.fromkeys(line for line in frames.splitlines() if line.startswith('  File "'))
    sources = []
    for line in [line for line in named if not _LIBRARY.search(line)]:
        try:
            content = read_regular(line.split('"')[1], _MOST_SOURCE_BYTES, follow_links=True)
        except (OSError, ValueError):
            continue
        sources.append(content.decode("utf-8", "replace"))
    return sources[:_MOST_SOURCES]


def _is_torchruns(error: str) -> bool:
    return error.split(":")[0].split(".")[-1].strip() in _TORCHRUN_ERRORS


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _was_out_of_memory() -> bool:
    """Whether the kernel killed something of this container for memory."""
    for file in _CGROUP_FILES:
        try:
            with open(file) as opened:
                fields = dict(line.split() for line in opened)
        except (OSError, ValueError):
            continue
        if int(fields.get("oom_kill", 0)) > 0:
            return True
    return False

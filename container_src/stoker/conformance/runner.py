"""Running the checks: side by side, each within its time, everything removed whatever happens."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Literal

from stoker.conformance.check import Check, Failed, NotApplicable
from stoker.conformance.lab import Lab
from stoker.conformance.script import Language
from stoker.machine.docker import call
from stoker.machine.failures import EngineLost

Status = Literal["pass", "fail", "n/a"]
LABEL_KEY = "stoker-check"
# A handler of 100 s instead of 3 to 8 s, and its reserve.
_FULL_EXTRA_SECONDS = 150.0
_ABORT_POLL_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What one check found on one image."""

    image: str
    check: Check
    init: bool
    status: Status
    seen: str
    seconds: float

    @property
    def variant(self) -> str:
        """How people tell the two runs of a check apart."""
        if not self.check.both_ways:
            return ""
        return "with --init" if self.init else "as PID 1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """One check on one image, one way."""

    image: str
    check: Check
    init: bool
    language: Language | None = None
    """What probes are written in; found out if it is not given."""


def make_tasks(images: Sequence[str], checks: Sequence[Check]) -> list[Task]:
    """Slow checks first, so that none of them is left alone at the end."""
    tasks = [
        Task(image=image, check=check, init=init)
        for image in images
        for check in checks
        for init in ((False, True) if check.both_ways else (False,))
    ]
    return sorted(tasks, key=lambda task: -task.check.limit_seconds)


def run_checks(
    client: str,
    tasks: Sequence[Task],
    *,
    jobs: int,
    keep: bool = False,
    full: bool = False,
    on_result: Callable[[Result], None],
) -> list[Result]:
    """Runs all tasks.

    Raises:
        EngineLost: the engine died; what was found until then has been handed to `on_result`.
    """
    label = f"{LABEL_KEY}={uuid.uuid4().hex[:12]}"
    results: list[Result] = []
    aborted = threading.Event()
    languages = Languages()
    pool = ThreadPoolExecutor(max_workers=jobs)
    pending: set[Future[Result]] = set()
    try:  # from the first container on: Ctrl-C may come at any moment
        for task in tasks:
            make_lab = _make_lab(client, task, label, full, aborted)
            pending.add(pool.submit(_run_one, task, make_lab, languages, keep))
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                results.append(future.result())
                on_result(results[-1])
    finally:
        aborted.set()
        pool.shutdown(wait=False, cancel_futures=True)
        # What is removed ends the wait of its thread; one that was just being started needs a
        # second try.
        while pending := {future for future in pending if not future.done()}:
            _clean_up(client, label, keep)
            wait(pending, timeout=_ABORT_POLL_SECONDS)
        _clean_up(client, label, keep)
    return results


def _clean_up(client: str, label: str, keep: bool) -> None:
    if keep:
        return
    with suppress(EngineLost):  # then there is no engine to ask, and the run says so itself
        remove_all(client, label)


def remove_all(client: str, label: str) -> None:
    """Removes every container and network that carries the label."""
    # Containers first: the engine refuses to remove a network that still has members.
    for kind, remove in (("container", ("rm", "--force", "--volumes")), ("network", ("rm",))):
        listed = [kind, "ls", "--quiet", "--filter", f"label={label}"]
        listed += ["--all"] if kind == "container" else []
        found = call(client, *listed).stdout.split()
        if found:
            call(client, kind, *remove, *found, timeout_seconds=120)


def _make_lab(
    client: str, task: Task, label: str, full: bool, aborted: threading.Event
) -> Callable[[], Lab]:
    """A lab is made when its task begins: its clock runs from then on."""
    return partial(
        Lab,
        client=client,
        image=task.image,
        label=label,
        init=task.init,
        limit_seconds=task.check.limit_seconds + (_FULL_EXTRA_SECONDS if full else 0),
        full=full,
        aborted=aborted,
    )


def _run_one(task: Task, make_lab: Callable[[], Lab], languages: Languages, keep: bool) -> Result:
    lab = make_lab()
    started = time.monotonic()
    status, seen = _try(task, lab, languages)
    if not keep:
        lab.close()
    return Result(
        image=task.image,
        check=task.check,
        init=task.init,
        status=status,
        seen=seen,
        seconds=time.monotonic() - started,
    )


def _try(task: Task, lab: Lab, languages: Languages) -> tuple[Status, str]:
    try:
        lab.language = task.language or languages.of(lab)
        return "pass", task.check.tried(lab)
    except Failed as failure:
        return "fail", str(failure)
    except NotApplicable as reason:
        return "n/a", str(reason)
    except EngineLost:
        raise
    except Exception as error:  # a mistake of the check must not hide the others' results
        return "fail", f"the check itself broke: {type(error).__name__}: {error}"


_IS_PYTHON_3 = "import sys; sys.exit(sys.version_info < (3,))"
# Python may be where only `train` looks for it. Nothing but the shell itself is needed here.
_LOOK = """
found=no
for file in /bin/python* /usr/bin/python* /usr/local/bin/python* /opt/bin/python* \
    /opt/*/bin/python* /opt/*/*/bin/python* /root/*/bin/python* /home/*/*/bin/python*; do
    [ -x "$file" ] && found=$file
done
train=$(command -v train) && read -r first < "$train" && case $first in
    '#!'*python*) found=$train ;;
esac
echo "PROBE python=$found"
"""
_NOT_FOUND = (125, 126, 127)
"""How `docker run` ends when the program is not there, or cannot be started."""


class Languages:
    """Asks each image once in a run."""

    def __init__(self) -> None:
        self._found: dict[str, Language] = {}
        self._lock = threading.Lock()

    def of(self, lab: Lab) -> Language:
        """The language for probes in the lab's image."""
        with self._lock:
            # Under the lock: the other checks of this image wait for the answer instead of asking
            # as well.
            if lab.image not in self._found:
                self._found[lab.image] = find_language(lab)
            return self._found[lab.image]


def find_language(lab: Lab) -> Language:
    """Tries Python, then sh; in doubt it is Python."""
    # By its exit code: `python` may be Python 2.
    for program in ("python3", "python"):
        if _ask(lab, program, _IS_PYTHON_3)[0] == 0:
            return "python"
    code, said = _ask(lab, "/bin/sh", _LOOK)
    if "PROBE python=no" in said:
        return "sh"
    return "none" if code in _NOT_FOUND else "python"


def _ask(lab: Lab, program: str, text: str) -> tuple[int, str]:
    options = ("--rm", "--label", lab.label, "--network", "none", "--entrypoint", program)
    answer = lab.docker("run", *options, lab.image, "-c", text, timeout_seconds=30)
    return answer.code, answer.stdout

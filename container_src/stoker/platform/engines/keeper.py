"""A process that runs one host of a job and outlives the server: `keeper FOLDER`.

The server may be killed at any time; the next one finds the state of the run in the folder.
Standard library only: a keeper starts in an instant and costs a few MB while the job runs.

    plan.json    what to run                     written by the engine before the start
    lock         held by the one keeper of the folder
    keeper.json  who the keeper is               ┐
    run.json     who the first process is        │ each written whole, in this order
    log          all it says, both streams       │
    exit.json    how it ended; all of it is over ┘
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from signal import SIGKILL
from typing import Any

from stoker.machine.processes import Identity, descendants, read_identity
from stoker.platform.engines.namespaces import (
    adopt_orphans,
    cut_off_network,
    give_names,
    mount_all,
)

MARK = "STOKER_KEEPER"
"""In the environment of all that belongs to a keeper: what is left if it is killed is found."""

_NOT_STARTED = 127  # a shell's code for a program that it cannot start
_EXIT_PART = "exit.tmp"
_EXIT_BYTES = 4096
_MOST_ERROR_CHARACTERS = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class KeeperPlan:
    """What a keeper runs."""

    job: str
    host: str
    attempt: int
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    folder: str
    names: Mapping[str, str]
    """Hosts to be found by name → address; empty if the machine knows them, or there is one."""
    isolated: bool
    mounts: tuple[tuple[str, str, str], ...] = ()
    """[kind, source, target]: `overlay` with its options, or `bind`, which is read-only."""


@dataclass(frozen=True, slots=True)
class KeeperFolder:
    """The files of one run."""

    path: Path

    @property
    def log(self) -> Path:
        return self.path / "log"

    def claim(self) -> bool:
        """False if another keeper has, or has had, this folder."""
        lock = os.open(self.path / "lock", os.O_CREAT | os.O_RDWR, 0o600)  # held until the end
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return self.read_identity("keeper") is None

    def write_plan(self, plan: KeeperPlan) -> None:
        self._write("plan", asdict(plan))

    def read_plan(self) -> KeeperPlan | None:
        raw = self._read("plan")
        return None if raw is None else KeeperPlan(**{**raw, "argv": tuple(raw["argv"])})

    def write_identity(self, who: str, identity: Identity) -> None:
        self._write(who, asdict(identity))

    def read_identity(self, who: str) -> Identity | None:
        """`keeper`, or `run` for the first process."""
        raw = self._read(who)
        return None if raw is None else Identity(**raw)

    def reserve_exit(self) -> None:
        """Take the space for how it ends: the run itself may fill the disk."""
        _write_whole(self.path / _EXIT_PART, b" " * _EXIT_BYTES)

    def write_exit(self, code: int, *, error: str = "") -> None:
        content = json.dumps({"code": code, "error": error[:_MOST_ERROR_CHARACTERS]})
        # Over the reserved bytes, which takes no new ones; JSON may end in spaces.
        with (self.path / _EXIT_PART).open("r+b") as file:
            file.write(content.encode().ljust(_EXIT_BYTES))
            file.flush()
            os.fsync(file.fileno())
        (self.path / _EXIT_PART).replace(self.path / "exit.json")

    def read_exit(self) -> dict[str, Any] | None:
        return self._read("exit")

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        temporary = self.path / f"{name}.tmp"
        _write_whole(temporary, json.dumps(content).encode())
        temporary.replace(self.path / f"{name}.json")

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads((self.path / f"{name}.json").read_text())
        except FileNotFoundError:
            return None
        return found


def _write_whole(file: Path, content: bytes) -> None:
    with file.open("wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())


def main(argv: list[str]) -> int:
    """Runs the plan of a folder to its end. Closing stdout says that the start is over."""
    folder = KeeperFolder(Path(argv[0]))
    plan, me = folder.read_plan(), read_identity(os.getpid())
    if plan is None or me is None or not folder.claim():
        return 64
    folder.reserve_exit()
    folder.write_identity("keeper", me)
    with folder.log.open("ab", buffering=0) as log:
        try:
            _set_stage(plan, folder.path, log.fileno())
            process = _launch(plan, log.fileno())
        except OSError as error:
            folder.write_exit(_NOT_STARTED, error=f"{plan.argv[0]}: {error}")
            return 1
        run = read_identity(process)  # None: it has ended already, which its exit code tells
        folder.write_identity("run", run or Identity(pid=process, start_ticks=0, boot=""))
        os.dup2(log.fileno(), sys.stderr.fileno())  # should we fail, the job's reader sees it
        # stdin is /dev/null: closes the pipe on which _start_keeper() waits.
        os.dup2(sys.stdin.fileno(), sys.stdout.fileno())
        code = _wait(process)
    folder.write_exit(code)
    return 0


def _set_stage(plan: KeeperPlan, folder: Path, log: int) -> None:
    adopt_orphans()
    if plan.mounts:
        mount_all(plan.mounts)
    if plan.names:
        give_names(plan.names, folder / "hosts")
    if plan.isolated:
        try:
            cut_off_network()
        except OSError as error:
            said = f"[stoker] network isolation is not enforced: this machine says {error}\n"
            os.write(log, said.encode())


def _launch(plan: KeeperPlan, log: int) -> int:
    process = subprocess.Popen(
        plan.argv,
        env=plan.environment,
        cwd=plan.folder,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    # From here on `_wait` collects every child, this one too.
    process.returncode = 0
    return process.pid


def _wait(process: int) -> int:
    """Collects all children until the first process has ended, then ends the rest of them."""
    while True:
        pid, status = os.wait()
        if pid == process:
            break
    # As in a container: nothing outlives the first process. New ones may appear meanwhile.
    while rest := descendants(os.getpid()):
        for pid in rest:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, SIGKILL)
        with suppress(ChildProcessError):
            os.wait()
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

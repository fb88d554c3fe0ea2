"""The engine for machines without Docker: each host is a process under a keeper of its own."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Literal

from stoker.machine.failures import EngineLost
from stoker.machine.processes import Identity, heeds, with_variable
from stoker.machine.stock_images import find_stock_image
from stoker.platform.engines.engine import (
    LISTEN_SECONDS,
    EngineFailed,
    Exit,
    Launch,
    LocalImage,
    Network,
    Running,
    make_overlay_options,
)
from stoker.platform.engines.keeper import MARK, KeeperFolder
from stoker.platform.engines.relocation import (
    PACKAGES_DIR,
    link_mounts,
    make_base_environment,
    make_plan,
    make_private_mounts,
    relocate_config_files,
    show_opt_ml,
)
from stoker.platform.model.mount import Mount
from stoker.platform.model.root import Root

_MODULES = "stoker.platform.engines"
_LOOPBACK = "127.0.0.1"
_START_SECONDS = 30.0
_END_SECONDS = 10.0
_LOOK_SECONDS = 0.2
_LISTEN_LOOK_SECONDS = 0.02
_CHUNK_BYTES = 64 * 1024


class ProcessEngine:
    """Runs the launcher over `host_dir` instead of /opt/ml."""

    name: Literal["process"] = "process"

    def __init__(self, root: Root, *, reason: str, environment: Mapping[str, str]) -> None:
        """Args: environment: that of the server, which gives PATH, HOME and the like."""
        self.reason = reason
        self._root = root
        self._folder = root.processes_dir
        self._environment = make_base_environment(environment)
        self._lock = threading.Lock()

    def require_image(self, image: str) -> None:
        """Whatever the image, it is this machine's Python that runs."""

    def explain_image(self, image: str) -> list[str]:
        """An image of AWS would hold a framework that need not be here."""
        if find_stock_image(image) is None:
            return []
        version = platform.python_version()
        return [f"asked for {image}, running without an image: this machine's Python {version}"]

    def image_digest(self, image: str) -> str:
        """No image runs."""
        return ""

    def list_images(self, repository: str) -> list[LocalImage]:
        """None is used."""
        return []

    def s3_host(self) -> str:
        """The loopback address: a process sees what the server sees."""
        return _LOOPBACK

    def make_network(self, job: str, hosts: Sequence[str], *, isolated: bool) -> Network:
        """Several addresses of the loopback device, which takes all of 127.0.0.0/8."""
        if len(hosts) == 1:
            return Network(name="loopback", addresses={})
        if self._names_refused and not _all_known(hosts):
            raise EngineFailed(
                f"a job of {len(hosts)} hosts needs the names {', '.join(hosts)}, but this machine"
                f" does not let a process have names of its own: {self._names_refused}",
                fix=f"echo '{_LOOPBACK} {' '.join(hosts)}' | sudo tee -a /etc/hosts; "
                "or use the Docker engine (--engine docker)",
            )
        return Network(
            name="loopback", addresses={host: f"127.1.0.{i}" for i, host in enumerate(hosts, 1)}
        )

    def remove_network(self, job: str) -> None:
        """There is nothing to remove."""

    def start(self, launch: Launch) -> None:
        """Starts a keeper, and waits until it has started the run."""
        folder, words = KeeperFolder(self._folder / launch.name), ""
        with self._lock:
            if folder.read_plan() is None:
                self._prepare(launch, folder)
            if folder.read_identity("keeper") is None:
                words = _start_keeper(folder.path)
        if not words:
            _await_start(folder)
        ended = folder.read_exit()
        error = ended["error"] if ended else words
        if folder.read_identity("run") is None:
            self.remove(launch.name)
            raise EngineFailed(
                f"{launch.host} cannot start: {error or 'its keeper was killed'}",
                fix="a process of this machine was to be started: is the program there, and"
                " executable? The Docker engine (--engine docker) would look in the image",
            )

    def keep_warm(self, launch: Launch) -> None:
        """A process starts in a few milliseconds."""

    def list_standbys(self) -> list[str]:
        """There are none."""
        return []

    def wait(self, name: str, timeout_seconds: float) -> Exit | None:
        """Waits for the keeper's end, which is the end of all it kept."""
        folder, keeper = self._find(name)
        ended = folder.read_exit()
        if not keeper.ends_within(timeout_seconds if ended is None else _END_SECONDS):
            return None
        ended = folder.read_exit()
        if ended is None:
            raise EngineLost(
                f"the keeper of {name} (process {keeper.pid}) was killed",
                fix="let the job run again; was the machine restarted, or out of memory?",
            )
        return Exit(code=ended["code"], error=ended["error"])

    def signal(self, name: str, number: int) -> bool:
        """To the launcher, which passes it on; after SIGKILL the keeper ends all the others."""
        run = KeeperFolder(self._folder / name).read_identity("run")
        if run is None:
            return True
        while number == signal.SIGTERM and not heeds(run.pid, number):
            if run.age_seconds() > LISTEN_SECONDS or run.ends_within(_LISTEN_LOOK_SECONDS):
                break
        run.signal(number)
        return True

    def read_log(self, name: str, start_byte: int) -> Iterator[bytes]:
        """Reads the log file until the keeper has ended."""
        folder, keeper = self._find(name)
        with folder.log.open("rb", buffering=0) as log:
            log.seek(start_byte)
            while True:
                over = not keeper.is_alive()  # asked first: what was written by then is read now
                while chunk := log.read(_CHUNK_BYTES):
                    yield chunk
                if over:
                    return
                keeper.ends_within(_LOOK_SECONDS)

    def remove(self, name: str) -> None:
        """Kills what runs still, also what a killed keeper has left, and removes the files."""
        folder = KeeperFolder(self._folder / name)
        self.signal(name, signal.SIGKILL)
        keeper = folder.read_identity("keeper")
        if keeper and not keeper.ends_within(_END_SECONDS):
            keeper.signal(signal.SIGKILL)
            keeper.ends_within(_END_SECONDS)
        if folder.read_exit() is None:
            for pid in with_variable(MARK, str(folder.path)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder.path, ignore_errors=True)

    def list_runs(self) -> list[Running]:
        """Every folder with a plan in it."""
        found = []
        for path in sorted(self._folder.glob("*")):
            plan = KeeperFolder(path).read_plan()
            if plan is not None:
                found.append(
                    Running(name=path.name, job=plan.job, host=plan.host, attempt=plan.attempt)
                )
        return found

    def take_ownership(self, folder: Path, image: str) -> None:
        """The processes ran as the user."""

    def adapt_config_files(self, host_dir: Path) -> None:
        """There is no /opt/ml here."""
        relocate_config_files(host_dir)

    def sweep(self) -> None:
        """Removes what belongs to jobs without a folder, and what a crash left half made."""
        known = {running.name: running.job for running in self.list_runs()}
        for path in self._folder.glob("*"):
            if path.name not in known or not self._root.job_dir(known[path.name]).exists():
                self.remove(path.name)

    def close(self) -> None:
        """Keepers need no server."""

    def _find(self, name: str) -> tuple[KeeperFolder, Identity]:
        folder = KeeperFolder(self._folder / name)
        keeper = folder.read_identity("keeper")
        if keeper is None:
            raise EngineLost(f"there is no run {name} under {self._folder}", fix="start it again")
        return folder, keeper

    def _prepare(self, launch: Launch, folder: KeeperFolder) -> None:
        shutil.rmtree(folder.path, ignore_errors=True)  # a crash before the plan was whole
        shielded = [
            m for m in launch.mounts if m.layers or (m.read_only and not self.layers_refused)
        ]
        link_mounts(tuple(m for m in launch.mounts if m not in shielded), launch.host_dir)
        relocate_config_files(launch.host_dir)
        folder.path.mkdir(parents=True, mode=0o700)
        folder.log.touch()
        mounts = make_private_mounts(shielded, launch.host_dir)
        if not launch.is_training and not self.layers_refused:
            mounts += show_opt_ml(launch.host_dir, folder.path / "opt")
        folder.write_plan(
            make_plan(
                launch,
                base_environment=self._environment,
                mark=str(folder.path),
                gives_names=len(launch.peers) > 1 and not self._names_refused,
                mounts=mounts,
            )
        )

    @cached_property
    def _names_refused(self) -> str:
        """Why this machine does not let a process have names of its own; empty if it does."""
        with tempfile.NamedTemporaryFile() as file:
            return _try_namespaces(file.name)

    @cached_property
    def layers_refused(self) -> str:
        """Tried once, in a folder where the jobs' own will be."""
        self._root.jobs_dir.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._root.folder, prefix=".try-") as folder:
            lower, upper, target = (Path(folder, name) for name in ("lower", "upper", "target"))
            mount = Mount(source=upper, layers=(lower,), target=str(target))
            for each in (lower, upper, target, mount.work_dir):
                each.mkdir()
            words = _try_namespaces(folder, make_overlay_options(mount), str(target))
        return f"this machine lets no process mount an overlay ({words})" if words else ""


def _start_keeper(folder: Path) -> str:
    """Returns its error output if it failed; it is not waited for: its folder has its state."""
    reading, writing = os.pipe()
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
        (os.POSIX_SPAWN_DUP2, writing, 1),
        (os.POSIX_SPAWN_DUP2, writing, 2),
    ]
    command = _python("keeper", str(folder))
    try:
        # In a session of its own: Ctrl-C in the server's terminal is not meant for the job.
        os.posix_spawn(
            command[0], command, _helper_environment(), file_actions=actions, setsid=True
        )
    finally:
        os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        return pipe.read().decode("utf-8", "replace").strip()


def _await_start(folder: KeeperFolder) -> None:
    """Over at once, unless a server before us was killed while it started this very keeper."""
    deadline = time.monotonic() + _START_SECONDS
    while folder.read_identity("run") is None and folder.read_exit() is None:
        keeper = folder.read_identity("keeper")
        if time.monotonic() > deadline or (keeper and keeper.ends_within(_LOOK_SECONDS)):
            return
        if keeper is None:
            time.sleep(_LOOK_SECONDS)


def _try_namespaces(*arguments: str) -> str:
    """Why this machine does not allow it; empty if it does."""
    tried = subprocess.run(
        _python("namespaces", *arguments),
        env=_helper_environment(),
        capture_output=True,
        text=True,
        timeout=_START_SECONDS,
        check=False,
    )
    return "" if tried.returncode == 0 else tried.stderr.strip() or "no reason given"


def _python(module: str, *arguments: str) -> list[str]:
    # Without site-packages: they would cost a keeper its quick start.
    return [sys.executable, "-SP", "-m", f"{_MODULES}.{module}", *arguments]


def _helper_environment() -> dict[str, str]:
    return {"PYTHONPATH": PACKAGES_DIR}


def _all_known(hosts: Sequence[str]) -> bool:
    try:
        return all(socket.gethostbyname(host).startswith("127.") for host in hosts)
    except OSError:
        return False

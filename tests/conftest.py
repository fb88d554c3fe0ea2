"""A fake /opt/ml on a temporary folder, and guards against tests that leave something behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path

import pytest

import stoker
from stoker.runtime.processes import descendants

# A shell starts what runs in its background with SIGINT ignored, and children would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What a test that uses one of these is: it runs processes of ours.
FUNCTIONAL_FIXTURES = {"cli", "make_server", "module_server", "opt_ml", "scripts", "server"}
MAIN = Path(stoker.__file__).with_name("runtime") / "__main__.py"
DEADLINE_SECONDS = 240
OF_THE_SESSION: set[int] = set()
"""Processes that fixtures of the session keep for all tests."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Spares a run of the Docker tests alone the imports of all other modules: torch and more."""
    is_test = collection_path.match("test_*.py") and config.option.markexpr == "docker"
    return True if is_test and "mark.docker" not in collection_path.read_text() else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks by their fixtures what modules do not mark themselves."""
    for item in items:
        if FUNCTIONAL_FIXTURES & set(item.fixturenames) and not item.get_closest_marker("docker"):
            item.add_marker("functional")


class OptMl:
    """One job's /opt/ml tree, and ways to run the real launcher over it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("input/config", "input/data", "code", "model", "output"):
            (root / folder).mkdir(parents=True)

    def config(self, name: str, content: object) -> None:
        text = content if isinstance(content, str) else json.dumps(content)
        (self.root / "input/config" / f"{name}.json").write_text(text)

    def hyperparameters(self, **values: str) -> None:
        self.config("hyperparameters", values)

    def script(self, text: str, name: str = "train.py", **hyperparameters: str) -> Path:
        """Writes the user's code and names it as the entry point."""
        file = self.root / "code" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text))
        self.hyperparameters(sagemaker_program=name, **hyperparameters)
        return file

    @property
    def failure(self) -> str:
        file = self.root / "output/failure"
        return file.read_text() if file.exists() else ""

    def start(self, *arguments: str, **environ: str) -> subprocess.Popen[str]:
        """Starts the launcher as the image does: isolated, without site-packages."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("SM_", "SAGEMAKER_"))}
        return subprocess.Popen(
            [sys.executable, "-IS", str(MAIN), *arguments],
            env={**clean, "STOKER_ROOT": str(self.root), "TRAINING_JOB_NAME": "job", **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments, **environ)
        out, err = process.communicate(timeout=DEADLINE_SECONDS)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def run_until(
        self, name: str, number: int = signal.SIGTERM, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs the launcher, and signals it once the job has written a file below its root."""
        process = self.start(**environ)
        self.wait_for(name)
        process.send_signal(number)
        out, err = process.communicate(timeout=DEADLINE_SECONDS)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def wait_for(self, name: str) -> Path:
        """Waits until the job has written a file below its root."""
        return wait_for_file(self.root / name)


def wait_for_file(file: Path) -> Path:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not file.exists():
        assert time.monotonic() < deadline, f"{file} did not appear"
        time.sleep(0.01)
    return file


@pytest.fixture
def opt_ml(tmp_path: Path) -> OptMl:
    return OptMl(tmp_path / "ml")


@pytest.fixture(autouse=True)
def _nothing_is_left_behind():
    environ = _environ()
    yield
    left = [pid for pid in descendants(os.getpid()) if pid not in OF_THE_SESSION]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):  # else it would be blamed on the next test, too
            os.waitpid(pid, 0)
    assert _environ() == environ, "the test changed the environment"
    assert not left, "the test left processes running"


def _environ() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"}

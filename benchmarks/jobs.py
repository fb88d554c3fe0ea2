"""A training job to measure: a small /opt/ml of its own, and the ways to start it."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from figures import CannotMeasure

_LIMIT_SECONDS = 600
_PREFIXES = ("PYTHON", "SM_", "SAGEMAKER_", "STOKER_")


@dataclass(frozen=True, kw_only=True, slots=True)
class Launcher:
    """One way to start a job's script."""

    name: str
    argv: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class JobTree:
    """What SageMaker puts under /opt/ml, under another root."""

    root: Path

    @property
    def script(self) -> Path:
        return self.root / "code/train.py"

    @property
    def stdout(self) -> Path:
        return self.root / "stdout"

    @property
    def stderr(self) -> Path:
        return self.root / "stderr"


def make_job(root: Path, script: str) -> JobTree:
    """A one-host job that runs `script`."""
    job = JobTree(root=root)
    files = {
        # localhost: the stock toolkit waits until each host's name resolves.
        "resourceconfig": {
            "current_host": "localhost",
            "hosts": ["localhost"],
            "network_interface_name": "eth0",
        },
        "hyperparameters": {"sagemaker_program": '"train.py"', "epochs": "3", "lr": "0.001"},
        "inputdataconfig": {"train": {"TrainingInputMode": "File"}},
    }
    for folder in ("input/config", "input/data/train", "code", "model", "output/data"):
        (root / folder).mkdir(parents=True)
    for name, content in files.items():
        (root / f"input/config/{name}.json").write_text(json.dumps(content))
    job.script.write_text(script)
    return job


def run_job(job: JobTree, launcher: Launcher, extra: Mapping[str, str] | None = None) -> float:
    """Runs it to its end, output to files, and returns the seconds that took.

    Raises:
        CannotMeasure: it failed, or never ended.
    """
    environ = {**_clean_environ(), **_roots(job), **launcher.environ, **(extra or {})}
    with job.stdout.open("wb") as stdout, job.stderr.open("wb") as stderr:
        started = time.monotonic()
        process = subprocess.Popen(
            launcher.argv,
            env={**environ, "BENCHMARK_STARTED": repr(time.monotonic())},
            cwd=job.root,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
        )
        # Not `wait(timeout)`, which looks only after 32, 64, 114, 164 … ms.
        watchdog = threading.Timer(_LIMIT_SECONDS, process.kill)
        watchdog.start()
        code = process.wait()
        seconds = time.monotonic() - started
        watchdog.cancel()
    if code != 0:
        said = job.stderr.read_text(errors="replace").strip()[-500:]
        raise CannotMeasure(f"{launcher.name} ended with {code}: {said}")
    return seconds


def _clean_environ() -> dict[str, str]:
    environ = os.environ  # noqa: TID251 - a benchmark is not a job: there is no contract to read
    return {name: text for name, text in environ.items() if not name.startswith(_PREFIXES)}


def _roots(job: JobTree) -> dict[str, str]:
    return {"STOKER_ROOT": str(job.root), "SAGEMAKER_BASE_DIR": str(job.root)}

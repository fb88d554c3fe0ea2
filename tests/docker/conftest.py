"""Real containers of the built image, each removed when its test ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
import zipfile
from functools import cache
from pathlib import Path

import pytest

from stoker.machine.docker import find_client

IMAGE = os.environ.get("STOKER_TEST_IMAGE", "stoker:cpu")
# For whatever an engine on a busy machine needs minutes for: no test waits longer than it must.
DEADLINE_SECONDS = 240
LABEL = f"stoker-test={uuid.uuid4().hex}"
# Shells as PID 1, or as the child of an init: the service has been seen with both.
INIT = pytest.mark.parametrize("init", [(), ("--init",)], ids=["pid-1", "under-init"])


@cache
def client() -> str:
    """Asked for when a test runs: collecting the tests needs no Docker."""
    return find_client()


class Containers:
    """Starts containers over one /opt/ml, as the service does."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def start(
        self, *options: str, command: tuple[str, ...] = ("train",), root: Path | None = None
    ) -> str:
        """Starts a container in the background and returns its id."""
        argv = [client(), "run", "--detach", "--label", LABEL, "--env", "TRAINING_JOB_NAME=job"]
        argv += ["--volume", f"{root or self.root}:/opt/ml", *options, IMAGE, *command]
        started = subprocess.run(argv, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
        assert started.returncode == 0, started.stderr
        return started.stdout.strip()

    def run(self, *options: str, **settings: object) -> subprocess.CompletedProcess[str]:
        """Runs a container to its end."""
        return self.wait(self.start(*options, **settings))

    def wait(self, container: str) -> subprocess.CompletedProcess[str]:
        """Waits for the end; returns exit code and both streams."""
        code = docker("wait", container, timeout=280)
        logs = subprocess.run(
            [client(), "logs", container], capture_output=True, text=True, timeout=DEADLINE_SECONDS
        )
        return subprocess.CompletedProcess(container, int(code), logs.stdout, logs.stderr)

    def stop(self, container: str, *, grace_seconds: int = 120):
        docker("stop", "-t", str(grace_seconds), container)
        return self.wait(container)


def docker(*arguments: str, timeout: float = DEADLINE_SECONDS) -> str:
    done = subprocess.run(
        [client(), *arguments], capture_output=True, text=True, timeout=timeout, check=True
    )
    return done.stdout.strip()


def wait_for_line(container: str, text: str, deadline_seconds: float = DEADLINE_SECONDS) -> None:
    """Waits until a running container has printed a text."""
    deadline = time.monotonic() + deadline_seconds
    while True:
        logs = subprocess.run([client(), "logs", container], capture_output=True, text=True)
        if text in logs.stdout + logs.stderr:
            return
        assert time.monotonic() < deadline, f"{text!r} never came:\n{logs.stdout}{logs.stderr}"
        time.sleep(0.1)


@pytest.fixture
def containers(opt_ml):
    yield Containers(opt_ml.root)
    ids = docker("ps", "--all", "--quiet", "--filter", f"label={LABEL}").split()
    if ids:
        docker("rm", "--force", *ids)


@pytest.fixture(scope="session")
def sdk_drivers(tmp_path_factory) -> Path:
    """The drivers of SDK v3, from its own wheel."""
    folder = tmp_path_factory.mktemp("sdk")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    lock = Path(__file__).parents[1] / "data/sdk-v3.lock"
    subprocess.run([*pip, "--dest", folder, "-r", lock], check=True, timeout=300)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        wheel.extractall(folder)
    return folder / "sagemaker/train"


def mount_drivers(opt_ml, drivers: Path, *, distributed: dict[str, object] | None = None) -> None:
    """Lays out the channels `ModelTrainer(source_code=…)` makes, with its own template."""
    target = opt_ml.root / "input/data/sm_drivers"
    subprocess.run(["cp", "-r", drivers / "container_drivers", target], check=True)
    (opt_ml.root / "code").rename(opt_ml.root / "input/data/code")
    names: dict[str, str] = {}
    exec((drivers / "templates.py").read_text(), names)
    if distributed is None:
        driver = names["EXECUTE_BASIC_SCRIPT_DRIVER"]
    else:
        driver = names["EXEUCTE_DISTRIBUTED_DRIVER"].format(
            driver_name="Torchrun", driver_script="torchrun_driver.py"
        )
    script = names["TRAIN_SCRIPT_TEMPLATE"].format(
        working_dir="cd /opt/ml/input/data/code",
        install_requirements="",
        execute_driver=driver,
    )
    (target / "sm_train.sh").write_text(script)
    (target / "sourcecode.json").write_text(json.dumps({"entry_script": "train.py"}))
    (target / "distributed.json").write_text(json.dumps(distributed or {}))
    opt_ml.config(
        "resourceconfig",
        {
            "current_host": "algo-1",
            "hosts": ["algo-1"],
            "current_instance_type": "local",
            "network_interface_name": "eth0",
        },
    )
    opt_ml.config(
        "inputdataconfig", {name: {"TrainingInputMode": "File"} for name in ("code", "sm_drivers")}
    )
    opt_ml.hyperparameters(lr="0.1")


V3_ENTRYPOINT = ("--entrypoint", "/bin/bash")
V3_COMMAND = (
    "-c",
    "chmod +x /opt/ml/input/data/sm_drivers/sm_train.sh && "
    "/opt/ml/input/data/sm_drivers/sm_train.sh",
)

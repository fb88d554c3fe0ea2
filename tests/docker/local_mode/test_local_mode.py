"""Stock local mode of both SDKs with our image: a real engine, real compose, stock code."""

from __future__ import annotations

import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from stoker.machine.docker import find_client
from tests.sdks import IMAGE, run_sdk

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]
HERE = Path(__file__).parent
SDKS = pytest.mark.parametrize(
    ("sdk", "script"), [("v2", "estimator_v2.py"), ("v3", "model_trainer_v3.py")]
)
# Whatever is not root needs a user namespace for a network namespace.
OFFLINE = ["unshare", "-n"] if os.getuid() == 0 else ["unshare", "-r", "-n"]


@pytest.fixture
def work(tmp_path):
    """A folder for the SDK; what compose made for it is removed, which the SDKs never do."""
    for name in ("data", "work"):
        (tmp_path / name).mkdir()
    (tmp_path / "data/words.txt").write_text("coal")
    yield tmp_path
    label = "com.docker.compose.project.working_dir"
    listed = docker("ps", "--all", "--format", f'{{{{.ID}}}} {{{{.Label "{label}"}}}}')
    rows = [line.split(" ", 1) for line in listed.splitlines()]
    ours = [row[0] for row in rows if row[-1].startswith(str(tmp_path))]
    if ours:
        docker("rm", "--force", "--volumes", *ours)
    # It stays if another process uses it: the engine refuses then.
    subprocess.run([find_client(), "network", "rm", "sagemaker-local"], capture_output=True)


def docker(*arguments: str) -> str:
    done = subprocess.run([find_client(), *arguments], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout


def train(sdk, script, folder, *instances, before=()):
    places = [IMAGE, HERE / "source", folder / "data", folder / "work"]
    return run_sdk(sdk, HERE / script, *map(str, places), *instances, before=before)


def members(archive: str) -> list[str]:
    with tarfile.open(archive) as file:
        return sorted(member.name.removeprefix("./") for member in file if member.isfile())


@SDKS
def test_one_and_two_instances_train(work, sdk, script):
    result = train(sdk, script, work, "1", "2")
    assert "coal for 2 epochs on one of 1 hosts" in result["printed"]
    assert result["printed"].count("coal for 2 epochs on one of 2 hosts") == 2
    assert members(result["models"]["1"]) == ["model-1.txt"]
    assert members(result["models"]["2"]) == ["model-1.txt", "model-2.txt"]


@SDKS
def test_it_needs_no_network_and_no_account(work, sdk, script):
    result = train(sdk, script, work, "1", before=OFFLINE)
    assert members(result["models"]["1"]) == ["model-1.txt"]

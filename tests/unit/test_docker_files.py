"""The files under docker/: complete locks that say nothing about a machine, and the steps."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCKER = Path(__file__).resolve().parents[2] / "docker"
LOCKS = sorted(DOCKER.glob("*.lock"))

sys.path.insert(0, str(DOCKER / "steps"))
import constraints  # noqa: E402 - a program of the image build, not a package

sys.path.pop(0)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_requirement_is_pinned_and_hashed(lock):
    text = lock.read_text()
    pinned = re.findall(r"^[a-z0-9-]+==\S+ \\\n    --hash=sha256:[0-9a-f]{64}", text, flags=re.M)
    requirements = [row for row in text.splitlines() if row and row[0] not in "# "]
    assert pinned
    assert len(pinned) == len(requirements)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_no_lock_names_a_host_or_a_folder(lock):
    assert not re.search(r"://|--(index|extra-index|find-links)|(^|\s)/\w", lock.read_text())


def test_each_input_has_its_lock():
    inputs = {path.stem for path in DOCKER.glob("*.in")} - {"common"}
    assert inputs == {path.stem for path in LOCKS}


def test_both_flavors_hold_the_same_torch_and_only_one_has_cuda():
    cpu, cuda = ((DOCKER / f"{name}.lock").read_text() for name in ("cpu", "cuda"))
    assert re.search(r"^torch==2\.13\.0\+cpu ", cpu, flags=re.M)
    assert re.search(r"^torch==2\.13\.0 ", cuda, flags=re.M)
    assert "nvidia-" not in cpu
    assert "\nnvidia-nccl-cu13==" in cuda


def test_the_dockerfile_builds_on_old_engines_without_a_registry():
    text = (DOCKER / "Dockerfile").read_text()
    assert not re.search(r"^#\s*syntax=", text, flags=re.M)
    assert "<<" not in text
    assert not re.search(r"^COPY --link", text, flags=re.M)
    assert "ENTRYPOINT [" not in text


def test_bare_names_and_patterns_are_held_and_specifiers_copied():
    protected = ["# comment", "torch", "nvidia-*", "torchaudio", "", "protobuf>=6,<8  # why"]
    installed = {"torch": "2.13.0+cpu", "nvidia-nccl-cu13": "2.29", "nvidia-nvtx": "13.0"}
    assert constraints.make_constraints(protected, installed) == [
        "torch==2.13.0+cpu",
        "nvidia-nccl-cu13==2.29",
        "nvidia-nvtx==13.0",
        "protobuf>=6,<8",
    ]


@pytest.mark.parametrize("script", sorted(DOCKER.rglob("*.sh")), ids=lambda path: path.name)
def test_shell_scripts_parse(script):
    subprocess.run(["bash", "-n", script], check=True, timeout=10)

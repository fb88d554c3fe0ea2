"""The files under docker/: complete locks that say nothing about a machine, and the steps."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

DOCKER = Path(__file__).resolve().parents[2] / "docker"
LOCKS = sorted(DOCKER.glob("*.lock"))

# Programs of the image build, not packages.
sys.path[:0] = [str(DOCKER), str(DOCKER / "steps")]
import constraints  # noqa: E402 - see above
import lock as locking  # noqa: E402 - see above
import repair_torchvision  # noqa: E402 - see above

del sys.path[:2]


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


def test_both_flavors_hold_the_same_torchvision_and_its_cpu_build_counts_as_locked():
    cpu, cuda = ((DOCKER / f"{name}.lock").read_text() for name in ("torchvision", "cuda"))
    [version] = re.findall(r"^torchvision==(\S+) ", cpu, flags=re.M)
    assert f"\ntorchvision=={version} " in cuda
    [given] = re.findall(r"--hash=\S+", (DOCKER / "torchvision.in").read_text())
    assert given in cpu
    assert version == repair_torchvision.UPSTREAM


def test_hashes_given_by_hand_are_added_to_a_lock_once():
    wanted = f"# why\nfuel==1.0 --hash=sha256:{'a' * 64}\n"
    made = f"fuel==1.0 \\\n    --hash=sha256:{'b' * 64}\n"
    lock = locking.add_given_hashes(made, wanted)
    assert re.findall("[ab]{64}", lock) == ["a" * 64, "b" * 64]
    assert locking.add_given_hashes(lock, wanted) == lock


def test_a_cpu_build_of_torchvision_is_taken_as_it_is(tmp_path):
    wheel = tmp_path / "torchvision-0.28.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"
    wheel.write_bytes(b"the CPU build")
    taken = repair_torchvision.repair(wheel, tmp_path / "wheels")
    assert (taken.name, taken.read_bytes()) == (wheel.name, b"the CPU build")


@pytest.mark.parametrize("offered", [("1.0",), ("1.0", "1.0+cpu")], ids=" and ".join)
def test_pip_takes_the_cpu_build_where_it_is_offered(tmp_path, offered):
    wheels = [_write_wheel(tmp_path, version) for version in ("1.0", "1.0+cpu")]
    hashes = [hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in wheels]
    (tmp_path / "lock").write_text("fuel==1.0 " + " ".join(f"--hash=sha256:{h}" for h in hashes))
    if "1.0+cpu" not in offered:
        wheels.pop().unlink()
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-index", "--no-deps"]
    command += ["--require-hashes", "--find-links", tmp_path, "--dest", tmp_path / "upstream"]
    subprocess.run([*command, "-r", tmp_path / "lock"], check=True, timeout=240)
    assert os.listdir(tmp_path / "upstream") == [wheels[-1].name]


def _write_wheel(folder, version):
    wheel = folder / f"fuel-{version}-py3-none-any.whl"
    metadata = f"Metadata-Version: 2.1\nName: fuel\nVersion: {version}\n"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"fuel-{version}.dist-info/METADATA", metadata)
        archive.writestr(f"fuel-{version}.dist-info/WHEEL", "Wheel-Version: 1.0\n")
    return wheel


def test_another_torchvision_than_the_one_we_know_is_not_repaired(tmp_path, capsys):
    wheel = tmp_path / "torchvision-0.28.0-cp311-cp311-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("torchvision/extension.py", "import os\n")
    assert repair_torchvision.main(["", str(wheel), str(tmp_path / "wheels")]) == 3
    assert "torchvision/extension.py: expected" in capsys.readouterr().err


def test_the_dockerfile_builds_on_old_engines_without_a_registry():
    text = (DOCKER / "Dockerfile").read_text()
    assert not re.search(r"^#\s*syntax=", text, flags=re.M)
    assert "<<" not in text
    assert not re.search(r"^COPY --link", text, flags=re.M)
    assert "ENTRYPOINT [" not in text


def test_bare_names_and_patterns_are_held_and_specifiers_copied():
    protected = ["# comment", "torch", "nvidia-*", "torchaudio", "", "protobuf>=6,<8  # why"]
    protected += ["numpy>=2 if torch", "keras>=3 if tensorflow-cpu"]
    installed = {"torch": "2.13.0+cpu", "nvidia-nccl-cu13": "2.29", "nvidia-nvtx": "13.0"}
    assert constraints.make_constraints(protected, installed) == [
        "torch==2.13.0+cpu",
        "nvidia-nccl-cu13==2.29",
        "nvidia-nvtx==13.0",
        "protobuf>=6,<8",
        "numpy>=2",
    ]


@pytest.mark.parametrize("script", sorted(DOCKER.rglob("*.sh")), ids=lambda path: path.name)
def test_shell_scripts_parse(script):
    subprocess.run(["bash", "-n", script], check=True, timeout=240)

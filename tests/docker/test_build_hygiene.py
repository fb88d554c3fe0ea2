"""What is in the built image, and what is not: one container answers all questions.

The image under test is `stoker:cpu`, or the one STOKER_TEST_IMAGE names.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from stoker import __version__
from stoker.machine.docker import find_client

pytestmark = pytest.mark.docker

IMAGE = os.environ.get("STOKER_TEST_IMAGE", "stoker:cpu")
BUDGET_GB = {"cpu": 1.6, "cuda": 5.6, "sklearn": 1.65, "tensorflow": 1.3}
# torch's own fixture in Python 3.12 syntax: nothing imports it on 3.11.
NOT_COMPILABLE = {"py312_intrinsics.py"}
DOCKER = Path(__file__).parents[2] / "docker"
PROBE = Path(__file__).with_name("image_probe.py")


@pytest.fixture(scope="module")
def found() -> dict:
    """The answers of image_probe.py, from a container without a network."""
    command = [find_client(), "run", "--rm", "-i", "--network", "none", IMAGE, "python", "-"]
    done = subprocess.run(
        command, input=PROBE.read_text(), capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, f"{IMAGE} does not run: {done.stderr}\n  fix: make image"
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def inspected() -> dict:
    command = [find_client(), "image", "inspect", IMAGE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, f"no image {IMAGE}\n  fix: make image"
    return json.loads(done.stdout)[0]


@pytest.fixture(scope="module")
def flavor(inspected) -> str:
    return inspected["Config"]["Labels"]["stoker.flavor"]


def test_pip_check_has_no_complaint(found):
    assert found["pip_check"]["code"] == 0, found["pip_check"]["out"]


def test_every_bundled_package_can_be_imported(found, flavor):
    versions = found["imports"]
    assert "error" not in versions, versions["error"]
    assert versions["smdebug"] == "1.0.34+stoker2"
    if flavor == "tensorflow":
        assert versions["tensorflow"] == "2.21.0"
        assert versions["keras"].startswith("3.")
        return
    assert versions["torch"] == ("2.13.0+cu130" if flavor == "cuda" else "2.13.0+cpu")
    assert (versions["cuda"] is not None) == (flavor == "cuda")
    assert versions["torchvision"].startswith("0.28.0+")


def test_smdebug_reads_back_the_tensors_it_wrote(found, flavor):
    if flavor == "tensorflow":
        pytest.skip("smdebug's hook here is for PyTorch")
    tensors = found["smdebug"]
    assert "error" not in tensors, tensors["error"]
    assert len(tensors["written"]) == 3
    assert tensors["read"] == pytest.approx(tensors["written"])
    assert tensors["weight_equal"]
    assert any(name.startswith("gradient/") for name in tensors["names"])


def test_the_programs_sagemaker_calls_are_on_path(found, flavor):
    without = ["torchrun"] if flavor == "tensorflow" else []
    assert [name for name, path in found["programs"].items() if not path] == without
    for name in {"python3", "pip", "torchrun", "train"} - set(without):
        assert found["programs"][name] == f"/opt/venv/bin/{name}"


def test_there_is_no_compiler_and_no_static_library(found):
    assert found["compilers"] == []
    assert found["static_libraries"] == []


def test_no_program_changes_the_user(found):
    assert found["privileged"] == []


def test_no_credentials_history_or_build_secrets_are_in_the_file_system(found):
    # Python packages may have a module called `secrets`: only files of ours and folders count.
    assert [path for path in found["secret_names"] if "/site-packages/" not in path] == []


def test_no_caches_and_no_leftovers_of_the_build(found):
    leftovers = {folder: names for folder, names in found["caches"].items() if names}
    assert leftovers == {}


def test_all_python_code_is_compiled(found):
    missing = [path for path in found["bytecode_missing"] if Path(path).name not in NOT_COMPILABLE]
    assert missing == []


def test_the_environment_is_the_one_promised(found):
    environment = found["environment"]
    assert environment["PATH"].startswith("/opt/venv/bin:")
    assert environment["LANG"] == "C.UTF-8"
    assert environment["BASH_ENV"] == "/opt/stoker/bash_env.sh"
    assert environment["PIP_CONSTRAINT"] == "/opt/stoker/constraints.txt"
    assert environment["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert environment["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility"
    assert not {"PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"} & environment.keys()
    assert found["cwd"] == "/opt/ml/code"
    assert found["bash_env_readable"]


def test_train_is_the_command_and_there_is_no_entrypoint(inspected):
    assert inspected["Config"]["Cmd"] == ["train"]
    assert not inspected["Config"]["Entrypoint"]


def test_the_labels_say_what_the_image_is(inspected, found, flavor):
    labels = inspected["Config"]["Labels"]
    prefix = "org.opencontainers.image."
    for name in ("title", "description", "version", "revision", "licenses", "base.name"):
        assert labels[prefix + name], name
    assert re.fullmatch("sha256:[0-9a-f]{64}", labels[prefix + "base.digest"])
    assert labels[prefix + "version"] == __version__
    framework = "tensorflow" if flavor == "tensorflow" else "torch"
    version = found["imports"][framework].replace("+cu130", "")
    assert labels[f"stoker.{framework}.version"] == version
    assert labels["stoker.python.version"] == found["python"]
    assert labels.get("stoker.sklearn.version") == found["imports"]["sklearn"]


def test_the_bill_of_materials_lists_python_and_debian_packages(found, flavor):
    sbom = found["sbom"]
    assert (sbom["bomFormat"], sbom["specVersion"]) == ("CycloneDX", "1.5")
    versions = {(c["purl"].split("/")[0], c["name"]): c["version"] for c in sbom["components"]}
    package = {"tensorflow": "tensorflow-cpu"}.get(flavor, "torch")
    assert versions["pkg:pypi", package].startswith(("2.13.0", "2.21.0"))
    assert versions["pkg:pypi", "stoker"] == __version__
    assert ("pkg:deb", "bash") in versions
    assert (("pkg:pypi", "nvidia-nccl-cu13") in versions) == (flavor == "cuda")
    assert not {"timestamp", "serialNumber"} & sbom.keys()


def test_the_bill_of_materials_has_the_hash_of_every_package(found, flavor):
    sha256 = {}
    for component in found["sbom"]["components"]:
        [hashed] = component["hashes"]
        assert hashed["alg"] == "SHA-256"
        sha256[component["purl"]] = hashed["content"]
    parts = ("cpu", "sklearn") if flavor == "sklearn" else (flavor,)
    lock = "".join((DOCKER / f"{part}.lock").read_text() for part in parts)
    locked = set(re.findall("sha256:([0-9a-f]{64})", lock))
    for name in ("boto3", "numpy", {"tensorflow": "tensorflow-cpu"}.get(flavor, "torch")):
        [wheel] = [value for purl, value in sha256.items() if purl.startswith(f"pkg:pypi/{name}@")]
        assert wheel in locked, name


def test_the_constraints_hold_what_requirements_may_not_replace(found, flavor):
    lines = [line for line in found["constraints"].splitlines() if not line.startswith("#")]
    held = {re.split(r"[=<>]", line)[0]: line for line in lines}
    assert held["smdebug"] == "smdebug==1.0.34+stoker2"
    assert held["sagemaker-training"] == "sagemaker-training==5.1.4"
    assert ("protobuf" in held) == (flavor == "tensorflow"), "mlflow 2 asks for an older one"
    framework = {"tensorflow": "tensorflow-cpu"}.get(flavor, "torch")
    assert {framework, "tensorboard", "torch-tb-profiler", "stoker"} <= held.keys()
    assert any(name.startswith("nvidia-") for name in held) == (flavor == "cuda")


def test_a_requirement_for_another_torch_is_refused(found, flavor):
    if flavor == "tensorflow":
        pytest.skip("an image without torch holds no version of it")
    refused = found["pip_other_torch"]
    assert refused["code"] != 0
    assert "torch" in refused["err"]
    assert "constraint" in refused["out"] + refused["err"]


@pytest.mark.parametrize("asked", ["pip_smdebug", "pip_same_smdebug"])
def test_a_requirement_for_the_published_smdebug_is_satisfied_by_ours(found, asked):
    assert found[asked]["code"] == 0, found[asked]["err"]
    assert "Requirement already satisfied: smdebug" in found[asked]["out"]
    assert "Would install" not in found[asked]["out"]


def test_an_older_protobuf_is_refused_where_tensorflow_needs_its_own(found, flavor):
    # Without an index pip finds none to install: the question is what it says against this one.
    said = found["pip_old_protobuf"]["out"] + found["pip_old_protobuf"]["err"]
    assert ("constraint" in said) == (flavor == "tensorflow"), said


def test_the_history_holds_no_address_and_no_secret():
    command = [find_client(), "history", "--no-trunc", "--format", "{{.CreatedBy}}", IMAGE]
    history = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
    assert not re.search(r"https?://|token|password|AKIA", history.stdout, flags=re.IGNORECASE)


def test_the_image_keeps_its_size_budget(inspected, flavor):
    assert inspected["Size"] / 1e9 <= BUDGET_GB[flavor]

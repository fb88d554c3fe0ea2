"""An image without Python is tried with probes in sh; what is about Python does not apply."""

from __future__ import annotations

import shutil
import subprocess
import uuid

import pytest

from stoker.conformance.runner import Task, run_checks
from stoker.machine.docker import find_builder, find_client
from tests.conformance.faults import CHECKS, HERE, IMAGE, run_twice

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]

ABOUT_PYTHON = {5, 28, 32, 36, 53}
# A launcher that only becomes the script keeps a part of the contract: enough to see that the
# probes in sh tell the truth both ways in an image that has nothing else.
KEEPS = {1, 3, 4, 6, 7, 8, 9, 16, 17, 18, 21, 22, 26, 34, 41, 42, 43, 46, 49, 50}
BREAKS = {
    2: "PID 1 is sh",
    10: "23 of 23 values are wrong",
    11: "0 of 98 values arrived whole",
    12: "SM_CHANNEL_TRAIN is None",
    24: "are missing",
    35: "there is no bash",
    39: "failure is missing or empty",
    52: "neither an org.opencontainers.image label nor an SBOM",
}


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """Builds a target of no_python/Dockerfile under a name that no other run has."""
    name, made = f"stoker-no-python-{uuid.uuid4().hex[:12]}", []
    context = tmp_path_factory.mktemp("no-python") / "context"
    shutil.copytree(HERE / "no_python", context)

    def make(target: str) -> str:
        made.append(f"{name}:{target}")
        command = [*find_builder().argv, "--quiet", "--target", target, "--tag", made[-1]]
        subprocess.run([*command, str(context)], check=True, capture_output=True, timeout=300)
        return made[-1]

    yield make
    subprocess.run([find_client(), "rmi", "--force", *made], capture_output=True, timeout=240)


@pytest.fixture(scope="module")
def found(build):
    small = build("small")
    numbers = ABOUT_PYTHON | KEEPS | BREAKS.keys()
    tasks = [Task(image=small, check=CHECKS[number], init=False) for number in sorted(numbers)]
    return {result.check.number: result for result in run_twice(tasks)}


@pytest.mark.parametrize("number", sorted(KEEPS))
def test_what_the_image_keeps_is_seen_without_python(found, number):
    assert found[number].status == "pass", found[number].seen


@pytest.mark.parametrize("number", sorted(BREAKS))
def test_what_the_image_breaks_is_seen_without_python(found, number):
    assert found[number].status == "fail", found[number].seen
    assert BREAKS[number] in found[number].seen


@pytest.mark.parametrize("number", sorted(ABOUT_PYTHON))
def test_what_is_about_python_does_not_apply(found, number):
    assert found[number].status == "n/a", found[number].seen
    assert "no Python in the image" in found[number].seen


def test_without_a_shell_too_what_a_script_would_see_does_not_apply(build):
    bare = build("bare")
    tasks = [Task(image=bare, check=CHECKS[number], init=False) for number in (1, 21, 35)]
    results = run_checks(find_client(), tasks, jobs=1, on_result=lambda _: None)
    found = {result.check.number: result for result in results}
    for number in (1, 21):
        assert found[number].status == "n/a", found[number].seen
        assert "neither Python nor a shell" in found[number].seen
    assert found[35].status == "fail"


@pytest.fixture(scope="module")
def ours_in_sh():
    tasks = [
        Task(image=IMAGE, check=check, init=False, language="sh")
        for number, check in CHECKS.items()
        if number not in ABOUT_PYTHON
    ]
    tasks.sort(key=lambda task: -task.check.limit_seconds)
    return {result.check.number: result for result in run_twice(tasks)}


@pytest.mark.parametrize("number", sorted(CHECKS.keys() - ABOUT_PYTHON))
def test_our_own_image_passes_with_scripts_in_sh(ours_in_sh, number):
    assert ours_in_sh[number].status == "pass", ours_in_sh[number].seen

"""Every check finds its fault: a check that cannot fail is a defect."""

from __future__ import annotations

import importlib
import shutil
import subprocess
from pathlib import Path

import pytest

from stoker.host.conformance.checks import all_checks
from stoker.host.conformance.runner import Task, make_tasks, run_checks
from stoker.host.docker import find_builder, find_client

pytestmark = pytest.mark.docker

HERE = Path(__file__).parent
IMAGE = "stoker:cpu"
CHECKS = {check.number: check for check in all_checks()}


@pytest.fixture(scope="session")
def broken(tmp_path_factory):
    """Makes the image that is broken for one check, and removes it at the end."""
    made = []

    def make(number: int) -> str:
        group = CHECKS[number].group
        faults = importlib.import_module(f"tests.conformance.faults_{group}")
        context = tmp_path_factory.mktemp(f"fault{number}")
        for file in HERE.glob("*.py"):
            shutil.copy(file, context)
        lines = [f"FROM {IMAGE}"]
        if number in faults.FAULTS:
            lines += ["COPY *.py /faults/", "COPY --chmod=755 broken_train.py /opt/venv/bin/train"]
            lines += [f"ENV STOKER_FAULT={number} STOKER_FAULT_GROUP={group}"]
        lines += [faults.IMAGES[number]] if number in faults.IMAGES else []
        (context / "Dockerfile").write_text("\n".join(lines) + "\n")
        tag = f"stoker-broken:{number}"
        command = [*find_builder().argv, "--quiet", "--tag", tag, str(context)]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        made.append(tag)
        return tag

    yield make
    if made:
        subprocess.run([find_client(), "rmi", "--force", *made], capture_output=True)


@pytest.fixture(scope="session")
def ours():
    """Every check on our own image, two side by side as a user runs them."""
    tasks = make_tasks([IMAGE], all_checks())
    return run_checks(find_client(), tasks, jobs=2, on_result=lambda _: None)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", sorted(CHECKS))
def test_our_own_image_passes_both_ways(ours, number):
    found = [result for result in ours if result.check.number == number]
    assert len(found) == (2 if CHECKS[number].both_ways else 1)
    for result in found:
        assert result.status == "pass", f"{result.variant}: {result.seen}"


@pytest.mark.parametrize("number", sorted(CHECKS))
def test_the_check_finds_its_fault(broken, number):
    task = Task(image=broken(number), check=CHECKS[number], init=False)
    (result,) = run_checks(find_client(), [task], jobs=1, on_result=lambda _: None)
    assert result.status == "fail", result.seen
    assert "the check itself broke" not in result.seen
    assert len(result.seen) > 10


def test_every_point_of_the_contract_has_its_check_and_every_check_its_fault():
    assert sorted(CHECKS) == list(range(1, 55))
    for check in CHECKS.values():
        faults = importlib.import_module(f"tests.conformance.faults_{check.group}")
        assert check.number in {**faults.FAULTS, **faults.IMAGES}, check.title

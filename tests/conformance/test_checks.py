"""Every check finds its fault: a check that cannot fail is a defect."""

from __future__ import annotations

import pytest

from stoker.conformance.checks import all_checks
from stoker.conformance.runner import Task, make_tasks, run_checks
from stoker.machine.docker import find_client
from tests.conformance.faults import CHECKS, IMAGE, run_twice

pytestmark = pytest.mark.docker

ABOUT_PYTHON = {5, 28, 32, 36, 53}
# One container each, and no clock in what they judge.
CHEAP = (1, 9, 21, 24, 34, 35, 49)
NEIGHBOURS = 2


@pytest.fixture(scope="session")
def ours():
    """Every check on our own image, two side by side as a user runs them."""
    tasks = make_tasks([IMAGE], all_checks())
    return run_twice(tasks)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", sorted(CHECKS))
def test_our_own_image_passes_both_ways(ours, number):
    found = [result for result in ours if result.check.number == number]
    assert len(found) == (2 if CHECKS[number].both_ways else 1)
    for result in found:
        assert result.status == "pass", f"{result.variant}: {result.seen}"


@pytest.mark.parametrize("number", sorted(CHECKS))
def test_the_check_finds_its_fault(broken, number):
    """With its probe in Python and, where there is one, with the probe in sh."""
    languages = ("python",) if number in ABOUT_PYTHON else ("python", "sh")
    tasks = [
        Task(image=broken(number), check=CHECKS[number], init=False, language=language)
        for language in languages
    ]
    for result in run_checks(find_client(), tasks, jobs=2, on_result=lambda _: None):
        assert result.status == "fail", result.seen
        assert "the check itself broke" not in result.seen
        assert len(result.seen) > 10


@pytest.mark.parametrize("number", sorted(CHECKS))
def test_a_fault_is_noticed_by_its_neighbours_only_if_it_says_so(broken, faults, number):
    """A sample of what `make cross` tries in hours (docs/faults.md)."""
    tasks = [
        Task(image=broken(number), check=CHECKS[neighbour], init=False, language="python")
        for neighbour in neighbours(number)
    ]
    for result in run_checks(find_client(), tasks, jobs=2, on_result=lambda _: None):
        expected = "fail" if result.check.number in faults[number].also else "pass"
        assert result.status == expected, f"check {result.check.number}: {result.seen}"


def neighbours(number: int) -> list[int]:
    """The cheap checks whose numbers are nearest, without the fault's own."""
    others = [check for check in CHEAP if check != number]
    return sorted(others, key=lambda check: (abs(check - number), check))[:NEIGHBOURS]

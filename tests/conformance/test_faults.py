"""The deliberate faults are complete, and what they declare stands in docs/faults.md."""

from __future__ import annotations

import pytest

from tests.conformance import cross
from tests.conformance.cross import MEMORY, TABLE, Memory, Pair
from tests.conformance.cross_table import render_table, spell_numbers
from tests.conformance.faults import CHECKS, all_faults

FAULTS = all_faults()


def test_every_point_of_the_contract_has_its_check_and_every_check_its_fault():
    assert sorted(CHECKS) == list(range(1, 55))
    assert FAULTS.keys() == CHECKS.keys()


@pytest.mark.parametrize("number", sorted(FAULTS))
def test_a_fault_says_what_it_breaks_and_why_other_checks_fail(number):
    fault = FAULTS[number]
    assert fault.lines, CHECKS[number].title
    assert len(fault.what) > 10
    assert number not in fault.also, "its own check fails anyway"
    assert fault.also.keys() <= CHECKS.keys()
    for reason in fault.also.values():
        assert len(reason) > 10


def test_the_table_has_a_row_for_each_fault_with_what_it_declares():
    rows = {line.split(" | ")[0]: line for line in TABLE.read_text().splitlines()}
    for number, fault in FAULTS.items():
        row = rows[f"| {number}"]
        for reason in set(fault.also.values()):
            checks = [check for check, why in fault.also.items() if why == reason]
            assert f"{spell_numbers(checks)}: {reason}" in row


def test_what_was_tried_is_as_the_faults_declare_it():
    memory = Memory(MEMORY, FAULTS)
    for fault in (0, *FAULTS):
        for check in CHECKS:
            fails = fault != 0 and check in FAULTS[fault].fails
            status = memory.status(Pair(fault, check))
            assert not status or (status == "fail") is fails, (fault, check, status)


def test_a_pair_that_was_tried_with_other_sources_is_untried_again(tmp_path):
    memory = Memory(tmp_path / "cross.json", FAULTS)
    assert memory.status(Pair(1, 2)) == ""
    (tmp_path / "cross.json").write_text('{"1/2": {"key": "old", "status": "pass"}}')
    assert Memory(tmp_path / "cross.json", FAULTS).status(Pair(1, 2)) == ""


def test_what_checks_share_is_part_of_a_pair_without_its_comments(tmp_path, monkeypatch):
    def find_keys(text: str) -> object:
        (tmp_path / "lab.py").write_text(text)
        return cross._make_keys(FAULTS)[Pair(1, 2)]

    assert (cross._CONFORMANCE / "lab.py").is_file()
    monkeypatch.setattr(cross, "_CONFORMANCE", tmp_path)
    before = find_keys('RUN = "train  # not a comment"\n')
    assert find_keys('# Why.\nRUN = "train  # not a comment"  # as the service\n') == before
    assert find_keys('RUN = "train"\n') != before


def test_the_table_is_honest_about_what_is_untried_or_surprising():
    statuses = {(fault, check): "" for fault in (0, *FAULTS) for check in CHECKS}
    statuses |= {(1, 1): "fail", (10, 1): "fail", (10, 2): "pass"}
    text = render_table(FAULTS, statuses, unsteady=[(10, 2)])
    assert "| tried | 3 (0 %) |" in text
    assert "| untried | 2913 |" in text
    assert "**not declared: 1**" in text
    assert "- check 3 (Needs no init, and works under one) on all faults" in text
    assert "two results: check 2 on fault 10" in text


def test_numbers_are_spelt_as_spans():
    assert spell_numbers([5, 1, 2, 3, 9, 10]) == "1-3, 5, 9-10"

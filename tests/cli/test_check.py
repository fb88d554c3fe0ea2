"""`stoker check` as a user calls it: table, JSON, JUnit, page, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from stoker.conformance.check import Check
from stoker.conformance.page import render_page
from stoker.conformance.report import make_json, render_table, verdict, write_junit
from stoker.conformance.runner import Result


def _check(number, *, both_ways=False):
    return Check(
        number=number,
        group="running",
        title=f"title {number}",
        contract="what it says",
        source="guide",
        how="how it is tried",
        fix="what to do",
        tried=lambda _: "",
        both_ways=both_ways,
    )


def _result(number, status, *, image="ours:1", init=False, both_ways=False, seen="seen <this>"):
    check = _check(number, both_ways=both_ways)
    return Result(image=image, check=check, init=init, status=status, seen=seen, seconds=1.5)


RESULTS = [
    _result(1, "pass"),
    _result(2, "fail", seen="bad \x00 bytes & <tags>"),
    _result(3, "n/a"),
    _result(27, "pass", both_ways=True),
    _result(27, "fail", both_ways=True, init=True),
]


def test_the_table_counts_a_check_once_and_names_the_variant_that_failed():
    table = render_table(["ours:1"], RESULTS)
    assert "ours:1: 1 passed, 2 failed, 1 not applicable" in table
    assert verdict(RESULTS, "ours:1", RESULTS[3].check) == "fail with --init"
    assert "fix: what to do" in table


def test_json_holds_everything():
    rows = json.loads(make_json(["ours:1"], RESULTS))["results"]
    assert [row["number"] for row in rows] == [1, 2, 3, 27, 27]
    assert rows[-1]["variant"] == "with --init"
    assert set(rows[0]) >= {"contract", "source", "how", "seen", "fix", "status", "seconds"}


def test_junit_is_read_by_an_xml_parser(tmp_path):
    write_junit(tmp_path / "report.xml", RESULTS)
    cases = ET.parse(tmp_path / "report.xml").getroot().findall("testcase")
    assert [len(case.findall("failure")) for case in cases] == [0, 1, 0, 0, 1]
    assert [len(case.findall("skipped")) for case in cases] == [0, 0, 1, 0, 0]


def test_the_page_is_one_offline_file_and_escapes_what_it_shows():
    page = render_page(["ours:1", "theirs:2"], RESULTS)
    assert "http" not in page
    assert "<tags>" not in page
    assert "&lt;tags&gt;" in page
    assert page.count("<details>") == 2
    assert page.count("<details open>") == 2  # what failed is shown without a click


@pytest.mark.docker
def test_the_command_ends_with_0_only_if_nothing_failed(tmp_path):
    page, junit = tmp_path / "page.html", tmp_path / "junit.xml"
    command = [sys.executable, "-m", "stoker.cli.main", "check", "stoker:cpu", "--only", "1,2"]
    done = subprocess.run(
        [*command, "--json", "--html", page, "--junit", junit],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert {row["status"] for row in json.loads(done.stdout)["results"]} == {"pass"}
    assert "[  1/2] ✓" in done.stderr
    assert page.exists()
    assert junit.exists()


@pytest.mark.parametrize("option", ["--only", "--skip"])
def test_a_number_no_check_has_is_refused(option):
    command = [sys.executable, "-m", "stoker.cli.main", "check", "stoker:cpu", option, "99"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 2
    assert "there is no check 99" in done.stderr
    assert "the numbers are 1 to 54" in done.stderr

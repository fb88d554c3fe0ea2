"""Uncaught exceptions as files."""

from __future__ import annotations

import json
import os

import pytest

from stoker.bus.crash import read_crashes, write_crash


def test_a_crash_comes_back_as_it_was_left(tmp_path):
    write_crash(str(tmp_path), error="ValueError: ä", traceback="Traceback …\nValueError: ä")
    (crash,) = read_crashes(str(tmp_path))
    assert (crash.error, crash.pid, crash.parent_pid) == (
        "ValueError: ä",
        os.getpid(),
        os.getppid(),
    )
    assert crash.traceback.endswith("ValueError: ä")


def test_a_long_text_is_kept_where_it_matters(tmp_path):
    write_crash(str(tmp_path), error="E" + "x" * 100_000, traceback="x" * 100_000 + "end")
    (crash,) = read_crashes(str(tmp_path))
    assert crash.error.startswith("Ex")
    assert crash.traceback.endswith("end")
    assert len(crash.error) + len(crash.traceback) < 70_000


def test_the_oldest_comes_first(tmp_path):
    for pid, at in ((1, 30.0), (2, 10.0), (3, 20.0)):
        crash = {"error": "e", "traceback": "t", "pid": pid, "parent_pid": 0, "at_seconds": at}
        (tmp_path / f"{pid}.json").write_text(json.dumps(crash))
    assert [crash.pid for crash in read_crashes(str(tmp_path))] == [2, 3, 1]


GOOD = {"error": "e", "traceback": "t", "pid": 1, "parent_pid": 0, "at_seconds": 1.0}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "3",
        "{}",
        json.dumps({**GOOD, "unknown": 1}),
        json.dumps({**GOOD, "at_seconds": "late"}),
        json.dumps({**GOOD, "at_seconds": None}),
        json.dumps({**GOOD, "error": 3}),
        "[" * 100_000,
    ],
)
def test_damaged_files_are_left_out(tmp_path, content):
    (tmp_path / "1.json").write_text(json.dumps(GOOD))
    (tmp_path / "2.json").write_text(content)
    (crash,) = read_crashes(str(tmp_path))
    assert crash.error == "e"


def test_a_folder_that_is_not_there_is_no_error(tmp_path):
    write_crash(f"{tmp_path}/absent", error="e", traceback="t")
    assert read_crashes(f"{tmp_path}/absent") == []

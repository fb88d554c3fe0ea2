"""Traces of interruptions, in both formats."""

from __future__ import annotations

import json

import pytest

from stoker.machine.failures import UsageRefused
from stoker.machine.units import read_seconds, show_seconds
from stoker.platform.jobs.spot_trace import Stay, read_trace


def stays_of(trace):
    return [(stay.up_seconds, stay.down_seconds) for stay in trace.stays]


@pytest.fixture
def ticks(tmp_path):
    """Writes a trace as skypilot-org/spot-traces publishes them; the values are made up."""

    def write(*counts, gap_seconds=300):
        file = tmp_path / "us-west-2a_v100_1.json"
        file.write_text(
            json.dumps({"metadata": {"gap_seconds": gap_seconds}, "data": list(counts)})
        )
        return file

    return write


def test_ticks_become_stays(ticks):
    trace = read_trace(ticks(1, 1, 0, 1, 0, 0, gap_seconds=32.5))
    assert stays_of(trace) == [(65.0, 32.5), (32.5, 65.0)]
    assert trace.interruptions == 2
    assert trace.availability == 0.5
    assert trace.mean_up_seconds == pytest.approx(48.75)


def test_a_record_that_begins_without_a_machine_and_breaks_off_with_one(ticks):
    trace = read_trace(ticks(0, 1, 1, 0, 1))
    assert stays_of(trace) == [(0, 300), (600, 300), (300, 0)]
    assert trace.ends_up
    assert trace.interruptions == 1
    assert trace.mean_up_seconds == 900
    assert trace.around() == (
        Stay(up_seconds=300, down_seconds=300),
        Stay(up_seconds=600, down_seconds=300),
    )


def test_a_machine_that_nothing_ever_took_away_stays(ticks):
    trace = read_trace(ticks(1, 1, 1))
    assert trace.interruptions == 0
    [stay] = trace.around()
    assert stay.up_seconds > 1e9


def test_fewer_machines_than_the_job_needs_are_none(ticks):
    file = ticks(4, 3, 4, 4)
    assert read_trace(file, instances=3).interruptions == 0
    assert stays_of(read_trace(file, instances=4)) == [(300, 300), (600, 0)]


def test_a_list_of_durations_is_read(tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text("# up  down\n1.5h 20m\n\n90, 0.5   # seconds\n2h\n")
    trace = read_trace(file)
    assert stays_of(trace) == [(5400, 1200), (90, 0.5), (7200, 0)]
    assert trace.interruptions == 3
    assert trace.around() == trace.stays


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"data": [1]}', "KeyError: 'metadata'"),
        ('{"metadata": {"gap_seconds": 0}, "data": [1]}', "gap_seconds is 0.0"),
        ('{"metadata": {"gap_seconds": 1}, "data": ["x"]}', "is not a spot trace"),
        ('{"metadata": {"gap_seconds": 1}, "data": [0, 0]}', "never a machine"),
        ('{"metadata": ', "is not a spot trace"),
        ("", "never a machine"),
        ("1h 2h 3h", "line 1: more than two"),
        ("1h\nsoon", "line 2: 'soon' is not a duration"),
        ("0 5m", "never a machine"),
    ],
)
def test_what_is_not_a_trace_is_refused_with_the_formats(tmp_path, text, said):
    file = tmp_path / "trace"
    file.write_text(text)
    with pytest.raises(UsageRefused, match=said) as refused:
        read_trace(file)
    assert "gap_seconds" in refused.value.fix


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageRefused, match="cannot be read"):
        read_trace(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("5m", 300),
        ("5 min", 300),
        ("1.5h", 5400),
        ("2d", 172800),
        ("0.2", 0.2),
        ("50ms", 0.05),
    ],
)
def test_durations_are_read(text, seconds):
    assert read_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "-5s", "5y", "h", "1h30m", "nan", "inf"])
def test_what_is_not_a_duration_is_refused(text):
    with pytest.raises(UsageRefused, match="is not a duration"):
        read_seconds(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.05, "0.05 s"),
        (30, "30 s"),
        (90, "1.5 min"),
        (5400, "1.5 h"),
        (86400 * 1.5, "36 h"),
        (86400 * 3, "3 d"),
        (86400 * 12345.6, "12,346 d"),
        (float("inf"), "never"),
    ],
)
def test_durations_are_shown(seconds, text):
    assert show_seconds(seconds) == text

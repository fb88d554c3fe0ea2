"""Metrics are a pure function of the log; a hopeless regular expression is given up alone."""

from __future__ import annotations

import json

import pytest

from stoker.platform.jobs.metrics import scan_metrics

CATASTROPHE = ("a" * 40) + "!"


@pytest.fixture
def write_log(tmp_path):
    def write(*events, host="algo-1", end="\n"):
        log = tmp_path / f"{host}-1.jsonl"
        log.write_text("\n".join(json.dumps(event) for event in events) + end)
        return log

    return write


def values(scan):
    return {metric.name: metric.value for metric in scan.metrics}


def test_the_last_value_wins_and_carries_its_time(write_log):
    events = [(1000, "loss=3.0;"), (2500, "loss=1.5; loss=0.5;"), (3000, "no number")]
    scan = scan_metrics([write_log(*events)], [("loss", r"loss=([0-9.]+);")])
    (metric,) = scan.metrics
    assert (metric.value, metric.timestamp) == (0.5, 2.5)


def test_hosts_are_merged_by_time_and_a_name_has_one_entry(write_log):
    logs = [
        write_log((1000, "loss=1"), (5000, "loss=5"), host="algo-1"),
        write_log((2000, "loss=2"), (3000, "val=3"), host="algo-2"),
    ]
    definitions = [("m", r"loss=(\d+)"), ("m", r"val=(\d+)")]
    for given in (logs, logs[::-1]):
        scan = scan_metrics(given, definitions)
        assert values(scan) == {"m": 5.0}
        assert len(scan.metrics) == 1


def test_a_log_of_many_blocks_is_read_to_its_first_line_and_a_torn_last_one_left_out(write_log):
    filling = [(number, f"{number} " + "é" * 100_000) for number in range(2, 30)]
    log = write_log((1, "first=7"), *filling, (31, "last=8"), end='\n[32,"last=9')
    scan = scan_metrics([log], [("f", r"first=(\d)"), ("l", r"last=(\d)"), ("n", r"^(\d+) ")])
    assert values(scan) == {"f": 7.0, "l": 8.0, "n": 29.0}


def test_what_is_no_number_is_no_value(write_log):
    events = [(1, "loss=2.0"), (2, "loss=nan"), (3, "loss=abc"), (4, "loss=1e-3x")]
    assert values(scan_metrics([write_log(*events[:3])], [("loss", "loss=(.*)")])) == {"loss": 2.0}
    assert values(scan_metrics([write_log(*events)], [("loss", r"loss=(\S+?)x?$")])) == {
        "loss": 0.001
    }


def test_a_hopeless_expression_is_given_up_and_the_others_are_not(write_log):
    definitions = [("before", r"x=(\d+)"), ("bad", r"((a+)+)$"), ("after", r"y=(\d+)")]
    events = [(1, "x=1 y=2"), (2, CATASTROPHE)]
    scan = scan_metrics([write_log(*events)], definitions, cpu_seconds_per_metric=0.2)
    assert values(scan) == {"before": 1.0, "after": 2.0}
    assert scan.given_up == ("bad",)


def test_a_scan_that_cannot_be_interrupted_ends_all_the_same(write_log):
    definitions = [("bad", r"((a+)+)$"), ("never reached", r"x=(\d+)")]
    events = [(1, "x=1"), (2, CATASTROPHE)]
    scan = scan_metrics(
        [write_log(*events)], definitions, cpu_seconds_per_metric=9999, wall_seconds=1
    )
    assert scan.given_up == ("bad", "never reached")


def test_without_a_log_or_definitions_there_is_nothing(write_log):
    assert scan_metrics([], [("loss", "loss=(.*)")]).metrics == ()
    assert scan_metrics([write_log((1, "loss=1"))], []).metrics == ()

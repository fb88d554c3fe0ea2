"""Metrics are a pure function of the log; a hopeless regular expression is given up alone."""

from __future__ import annotations

import json

import pytest

from stoker.bus.metric_line import make_line
from stoker.platform.data.log_streams import LogStreams
from stoker.platform.jobs.metrics import (
    MetricReader,
    describe_problems,
    find_near_lines,
    read_final,
)
from stoker.platform.jobs.series import MOST_POINTS, MetricSeries, Point
from stoker.platform.model.root import open_root

CATASTROPHE = ("a" * 40) + "!"


class Log:
    """The log of one job, and what is read of it."""

    def __init__(self, folder):
        self.root = open_root(folder)
        self.streams = LogStreams(self.root)
        self.series = MetricSeries(self.root.metrics_database)

    def write(self, *events, host="algo-1"):
        self.streams.create("job", host, 1)
        self.streams.append("job", host, events)

    def read(self, definitions, **limits):
        reader = MetricReader(
            self.streams, self.series, job="job", definitions=definitions, **limits
        )
        reader.read_new()
        reader.close()
        return {m.name: m.value for m in read_final(self.series, "job", definitions)}

    def values(self, name):
        return [(point.time_ms, point.value) for point in self.series.read("job", name)]


@pytest.fixture
def log(tmp_path):
    log = Log(tmp_path)
    yield log
    log.series.close()


def test_every_value_is_kept_and_the_last_one_is_final(log):
    log.write((1000, "loss=3.0;"), (2500, "loss=1.5; loss=0.5;"), (3000, "no number"))
    assert log.read([("loss", r"loss=([0-9.]+);")]) == {"loss": 0.5}
    assert log.values("loss") == [(1000, 3.0), (2500, 1.5), (2500, 0.5)]


def test_a_growing_log_is_read_once_however_often_the_reader_starts(log):
    definitions = [("n", r"n=(\d+)")]
    for number in range(5):
        log.write((number, f"n={number}"))
        log.read(definitions)
        log.read(definitions)
    assert log.values("n") == [(number, float(number)) for number in range(5)]


def test_hosts_are_merged_by_time_and_a_name_has_one_entry(log):
    log.write((1000, "loss=1"), (5000, "loss=5"), host="algo-1")
    log.write((2000, "loss=2"), (3000, "val=3"), host="algo-2")
    assert log.read([("m", r"loss=(\d+)"), ("m", r"val=(\d+)")]) == {"m": 5.0}
    assert [p.host for p in log.series.read("job", "m")] == [
        "algo-1",
        "algo-2",
        "algo-2",
        "algo-1",
    ]


def test_a_log_of_many_blocks_is_read_whole_and_a_torn_last_line_left_out(log):
    filling = [(number, f"{number} " + "é" * 100_000) for number in range(2, 30)]
    log.write((1, "first=7"), *filling, (31, "last=8"))
    (stream,) = log.streams.streams("job")
    with stream.file.open("a") as file:
        file.write('[32,"last=9')
    found = log.read([("f", r"first=(\d)"), ("l", r"last=(\d)"), ("n", r"^(\d+) ")])
    assert found == {"f": 7.0, "l": 8.0, "n": 29.0}
    assert len(log.values("n")) == len(filling)
    with stream.file.open("a") as file:
        file.write('"]\n')
    assert log.read([("l", r"last=(\d)")])["l"] == 9.0


def test_what_is_not_a_number_is_not_a_value(log):
    log.write((1, "loss=2.0"), (2, "loss=nan"), (3, "loss=abc"), (4, "loss=inf"))
    assert log.read([("loss", "loss=(.*)")]) == {"loss": 2.0}
    assert log.values("loss") == [(1, 2.0)]


def test_a_hopeless_expression_is_given_up_and_the_others_are_not(log):
    definitions = [("before", r"x=(\d+)"), ("bad", r"((a+)+)$"), ("after", r"y=(\d+)")]
    log.write((1, "x=1 y=2"), (2, CATASTROPHE))
    found = log.read(definitions, cpu_seconds_per_metric=0.2)
    assert found == {"before": 1.0, "after": 2.0}
    assert log.series.given_up("job") == {"bad"}
    log.write((3, CATASTROPHE))  # costs nothing from now on, not even after a restart
    assert log.read(definitions, cpu_seconds_per_metric=9999) == found
    (text,) = describe_problems(log.streams, log.series, "job", definitions)
    assert text.startswith("metric 'bad' is given up")


def test_a_scan_that_cannot_be_interrupted_ends_anyway(log):
    log.write((1, "x=1"), (2, CATASTROPHE))
    definitions = [("bad", r"((a+)+)$"), ("never reached", r"x=(\d+)")]
    log.read(definitions, cpu_seconds_per_metric=9999, wall_seconds=1)
    assert log.series.given_up("job") == {"bad", "never reached"}


def test_without_a_log_or_definitions_there_is_nothing(log):
    assert log.read([("loss", "loss=(.*)")]) == {}
    log.write((1, "loss=1"))
    assert log.read([]) == {}
    assert log.series.names() == []


def test_a_metric_without_a_value_is_reported_with_the_lines_that_nearly_matched(log):
    definitions = [("val:acc", r"val_acc=([0-9.]+)"), ("x", "zzz=([0-9]+)"), ("e", r"epoch (\d+)")]
    log.write((1, "epoch 1 val acc: 0.5"), (2, "train loss 3"), (3, "val acc without a number"))
    assert log.read(definitions) == {"e": 1.0}
    acc, x = describe_problems(log.streams, log.series, "job", definitions)
    assert "nearly: 'epoch 1 val acc: 0.5'; fix:" in acc
    assert "none is like it" in x
    log.write((4, f"[stoker] {acc}"))  # as the platform says it: not a value of `e`
    assert log.read(definitions) == {"e": 1.0}
    assert len(log.values("e")) == 1


def test_near_lines_share_words_and_have_a_number():
    lines = ["nothing 1", "Val Acc = 3", "val 4", "val acc"]
    assert find_near_lines("m", r"val_acc=(\d+)", lines) == ["Val Acc = 3"]
    assert find_near_lines("d", r"\d\s\w+", ["d 1", "s 2"]) == []


def test_points_and_the_place_in_the_log_are_one_transaction(log):
    point = Point(name="m", host="algo-1", time_ms=1, value=float("nan"))  # sqlite: NOT NULL
    with pytest.raises(Exception, match="NOT NULL"):
        log.series.add("job", "algo-1", [point], offset=10)
    assert log.series.offset("job", "algo-1") == 0
    assert log.series.names() == []


def test_a_flood_of_values_is_thinned_and_the_last_one_kept(log, monkeypatch):
    monkeypatch.setattr("stoker.platform.jobs.series.MOST_POINTS", 10)
    log.write(*((number, f"m={number}") for number in range(20)))
    log.read([("m", r"m=(\d+)")])
    log.write(*((number, f"m={number}") for number in range(20, 40)))
    assert log.read([("m", r"m=(\d+)")]) == {"m": 39.0}
    assert len(log.values("m")) == 21
    assert MOST_POINTS >= 100_000


def test_numbers_survive_json(log):
    log.write((1, "m=1e-300 m=-2.5E+10 m=.5"))
    log.read([("m", r"m=(\S+)")])
    assert json.dumps(log.values("m")) == "[[1, 1e-300], [1, -25000000000.0], [1, 0.5]]"


def test_metrics_of_job_log_need_no_definition(log):
    log.write(
        (1000, make_line(1, {"loss": 3.0, "lr": 0.1}).rstrip()),
        (2000, make_line(2, {"loss": 2.0, "val acc": 0.5}).rstrip()),
        (3000, "noise before " + make_line(3, {"loss": float("nan")}).rstrip()),
        (4000, "[metric] step=4 loss=abc"),
    )
    assert log.read([]) == {"loss": 2.0, "val acc": 0.5, "lr": 0.1}
    assert log.values("loss") == [(1000, 3.0), (2000, 2.0)]
    (first, *_) = read_final(log.series, "job", [])
    assert first.timestamp == 2.0


def test_a_definition_takes_precedence_over_job_log(log):
    log.write((1000, make_line(1, {"loss": 3.5, "lr": 0.1}).rstrip()))
    both = log.read([("loss", r"loss=(\d)"), ("top", r"lr=([\d.]+)")])
    assert both == {"loss": 3.0, "top": 0.1, "lr": 0.1}


def test_no_job_has_more_final_metrics_than_the_service_returns(log):
    log.write((1, make_line(1, {f"m{number}": 1.0 for number in range(99)}).rstrip()))
    assert len(log.read([])) == 40

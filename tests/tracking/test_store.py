from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace

import pytest

from stoker.tracking.records import Artifact, Experiment, LineageEntity, Link, Run, Trial
from stoker.tracking.series import Point
from stoker.tracking.store import RecordExists, RecordMissing, RunStore


@pytest.fixture
def store(tmp_path):
    made = RunStore(tmp_path / "runs.sqlite")
    yield made
    made.close()


def make_run(name="r", **fields) -> Run:
    return Run(name=name, id=f"id-{name}", created=1.0, modified=1.0, **fields)


def test_a_record_is_read_as_it_was_kept(store):
    records = [
        Experiment(name="E", id="1", created=1.0, modified=2.0, tags={"a": "b"}),
        Trial(name="t", experiment="E", created=1.0, modified=2.0),
        make_run(
            parameters={"lr": 0.1, "opt": "adam"},
            inputs={"train": Artifact(uri="s3://b/k")},
            lineage={"image": {"digest": "sha256:0"}},
        ),
        LineageEntity(
            name="arn:x", kind="artifact", type="DataSet", created=1.0, modified=1.0,
            source={"SourceUri": "s3://b", "SourceTypes": [{"SourceIdType": "Custom"}]},
        ),
    ]  # fmt: skip
    for record in records:
        store.add(record)
        assert store.read(type(record), record.name.upper()) == record
    assert store.read_id(Run, "id-r").name == "r"


def test_names_are_unique_whatever_their_case(store):
    store.add(make_run("run-1"))
    with pytest.raises(RecordExists, match="already exists"):
        store.add(make_run("RUN-1"))
    with pytest.raises(RecordMissing):
        store.read(Trial, "run-1")


def test_a_list_is_read_again_after_each_change(store, tmp_path):
    store.add(make_run("a"))
    assert [run.name for run in store.read_all(Run)] == ["a"]
    with suppress(KeyError), store.transaction():
        store.add(make_run("lost"))
        assert len(store.read_all(Run)) == 2
        raise KeyError
    assert [run.name for run in store.read_all(Run)] == ["a"]
    other = RunStore(tmp_path / "runs.sqlite")  # as another process
    other.change(Run, "a", lambda run: replace(run, title="new"))
    assert store.read_all(Run)[0].title == "new"
    other.remove(Run, "a")
    other.close()
    assert store.read_all(Run) == []


def test_a_renamed_record_does_not_replace_another(store):
    store.add(make_run("a"))
    store.add(make_run("b"))
    with pytest.raises(RecordExists):
        store.change(Run, "a", lambda run: replace(run, name="b"))
    assert [run.name for run in store.read_all(Run)] == ["a", "b"]


def test_a_removed_run_takes_its_points_and_links_along(store):
    run = make_run()
    store.add(run)
    store.log("r", [("loss", Point(i, i, i)) for i in range(1500)])
    store.link(Link(source="trial/t", target=run.node, kind="member", created=1.0))
    store.remove(Run, "R")
    assert (store.read_points("r", "loss"), store.summaries(), store.links()) == ([], {}, [])
    counts = [store._select(f"SELECT count(*) FROM {table}") for table in ("points", "blocks")]
    assert counts == [[(0,)], [(0,)]]


def test_every_point_is_read_back_across_blocks(store):
    expected = [Point(i, 1000 + i, i / 7) for i in range(4321)]
    for start in range(0, len(expected), 777):
        store.log("r", [("loss", point) for point in expected[start : start + 777]])
    assert store.read_points("R", "loss") == expected


def test_nan_and_infinity_survive_and_spoil_no_statistics(store):
    values = [1.0, math.nan, math.inf, -math.inf, 3.0]
    store.log("r", [("loss", Point(i, i, value)) for i, value in enumerate(values)])
    read = [point.value for point in store.read_points("r", "loss")]
    assert (read[0], read[2:]) == (1.0, [math.inf, -math.inf, 3.0])
    assert math.isnan(read[1])
    (summary,) = store.summaries()["r"]
    assert (summary.count, summary.low, summary.high, summary.mean, summary.deviation) == (
        *(5, 1.0, 3.0),
        *(2.0, 1.0),
    )
    store.log("only", [("loss", Point(0, 0, math.nan))])
    (summary,) = store.summaries(["only"])["only"]
    assert (summary.low, summary.mean) == (None, None)
    assert math.isnan(summary.last.value)


def test_values_near_the_largest_number_are_kept_without_a_deviation(store):
    values = [1e300, -1e300, 1.7e308, 1.7e308, -1.7e308, -1.7e308]
    for part in (values[:1], values[1:2], values[2:4], values[4:]):
        store.log("r", [("loss", Point(i, i, value)) for i, value in enumerate(part)])
    assert [point.value for point in store.read_points("r", "loss")] == values
    (summary,) = store.summaries()["r"]
    assert (summary.count, summary.low, summary.high) == (6, -1.7e308, 1.7e308)
    assert -1.7e308 <= summary.mean <= 1.7e308
    assert summary.deviation is None


def test_the_statistics_of_batches_are_those_of_the_whole(store):
    values = [1e9 + math.sin(i) for i in range(2500)]
    for start in range(0, 2500, 99):
        part = enumerate(values[start : start + 99], start)
        store.log("r", [("m", Point(i, i, value)) for i, value in part])
    (summary,) = store.summaries()["r"]
    mean = math.fsum(values) / 2500
    assert summary.mean == pytest.approx(mean, rel=1e-12)
    expected = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / 2500)
    assert summary.deviation == pytest.approx(expected, rel=1e-6)


def test_steps_that_go_backwards_are_kept_and_the_highest_is_the_last(store):
    for step, value in ((5, 0.5), (2, 0.2), (5, 0.6)):
        store.log("r", [("loss", Point(step, 0, value))])
    assert [point.step for point in store.read_points("r", "loss")] == [5, 2, 5]
    assert store.summaries()["r"][0].last == Point(5, 0, 0.6)


def test_a_thinned_series_keeps_every_peak(store):
    points = [Point(i, i, 0.0) for i in range(100_000)]
    points[31_337] = Point(31_337, 0, 9.0)
    points[77_777] = Point(77_777, 0, -9.0)
    points[50_000] = Point(50_000, 0, math.nan)
    store.log("r", [("loss", point) for point in points])
    buckets = store.read_buckets("r", "loss", 100)
    fine = store.read_buckets("r", "loss", 50_000)  # from the points, not from the blocks' peaks
    assert (len(buckets), len(fine)) == (100, 50_000)
    assert (fine[15_668].high, fine[38_888].low, fine[25_000].high) == (9.0, -9.0, 0.0)
    assert (buckets[0].first_step, buckets[-1].last_step) == (0, 99_999)
    assert (buckets[31].high, buckets[77].low, buckets[50].low) == (9.0, -9.0, 0.0)
    assert store.read_buckets("r", "other", 100) == []


def test_two_writers_of_one_run_lose_nothing(tmp_path):
    file = tmp_path / "runs.sqlite"

    def write(offset: int) -> None:
        own = RunStore(file)  # as another process would
        for i in range(200):
            own.log("r", [("loss", Point(offset + i, i, 1.0))] * 10)
        own.close()

    threads = [threading.Thread(target=write, args=(n * 1000,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store = RunStore(file)
    assert len(store.read_points("r", "loss")) == store.summaries()["r"][0].count == 4000
    store.close()


_WRITER = """
import sys
from pathlib import Path
from stoker.tracking.series import Point
from stoker.tracking.store import RunStore
store = RunStore(Path(sys.argv[1]))
step = len(store.read_points("r", "loss"))
while True:
    store.log("r", [(name, Point(step + i, 0, float(step + i))) for i in range(150)
                    for name in ("loss", "accuracy")])
    step += 150
    print(step, flush=True)
"""


def test_the_store_survives_a_kill_at_any_moment(tmp_path):
    file = tmp_path / "runs.sqlite"
    for lines in (1, 2, 7, 12, 20):
        writer = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(file)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(lines):
            reported = int(writer.stdout.readline())
        os.kill(writer.pid, signal.SIGKILL)
        reported = int(([reported, *writer.stdout.read().split()])[-1])
        writer.wait(60)
        writer.stdout.close()
        store = RunStore(file)
        steps = [point.step for point in store.read_points("r", "loss")]
        assert steps == list(range(len(steps)))
        assert len(steps) % 150 == 0
        assert len(steps) >= reported
        assert [s.count for s in store.summaries()["r"]] == [len(steps)] * 2
        assert store._select("PRAGMA integrity_check") == [("ok",)]
        store.close()

"""The client's pure parts: what is sent, what is read from a log, what is shown."""

from __future__ import annotations

import io
import tarfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stoker.bus.metric_line import make_line
from stoker.cli.client.display import render_running, render_summary, show
from stoker.cli.client.platform_api import Api, LogLine
from stoker.cli.client.source import pack_source, read_source
from stoker.cli.client.submission import TrainingSpec, make_submission
from stoker.cli.client.watch import (
    CurrentStatus,
    Ended,
    Transition,
    read_metrics,
    read_transfer,
    watch,
)
from stoker.machine.terminal import Terminal
from stoker.machine.units import show_elapsed
from stoker.platform.model.root import Root

ENDED = {
    "TrainingJobName": "j",
    "TrainingJobStatus": "Completed",
    "SecondaryStatus": "Completed",
    "CreationTime": datetime.now(UTC),
    "ModelArtifacts": {"S3ModelArtifacts": "s3://b/j/output/model.tar.gz"},
    "OutputDataConfig": {"S3OutputPath": "s3://b/"},
}


@pytest.fixture
def spec(tmp_path):
    for name in ("src", "data"):
        (tmp_path / name).mkdir()
    (tmp_path / "data/a.txt").write_text("coal")
    (tmp_path / "src/train.py").write_text("pass")
    return TrainingSpec(
        name="j",
        image="img",
        source_dir=tmp_path / "src",
        entry_point="train.py",
        channels={"train": tmp_path / "data", "old": "s3://b/old"},
    )


def test_folders_and_what_is_on_s3_are_named_and_not_sent(spec):
    submission = make_submission(spec)
    channels = {
        channel["ChannelName"]: channel["DataSource"]["S3DataSource"]["S3Uri"]
        for channel in submission.request["InputDataConfig"]
    }
    assert channels["old"] == "s3://b/old"
    assert channels["train"] == spec.channels["train"].as_uri()
    key = f"stoker/code/{submission.source.digest}/sourcedir.tar.gz"
    assert submission.source_key == key
    assert channels["code"].endswith(f"/{submission.source.digest}/")


def test_the_code_is_packed_without_what_no_job_needs(spec, tmp_path):
    for name in (".git/HEAD", "pkg/__pycache__/a.pyc", "pkg/a.py"):
        file = spec.source_dir / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    source = read_source(spec.source_dir, "train.py")
    pack_source(source, tmp_path / "code.tar.gz", show=print)
    with tarfile.open(tmp_path / "code.tar.gz") as archive:
        assert sorted(m.name for m in archive if m.isfile()) == ["pkg/a.py", "train.py"]


@pytest.mark.parametrize(
    ("regex", "value"),
    [("loss=([0-9.]+)", {"m": 0.5}), ("loss=(x)?", {}), ("loss=.*", {}), ("loss=(", {})],
)
def test_metrics_are_read_from_a_line_and_a_bad_regex_does_no_harm(regex, value):
    definitions = [{"Name": "m", "Regex": regex}]
    job = {"AlgorithmSpecification": {"MetricDefinitions": definitions}}
    assert read_metrics(job, "epoch 1 loss=0.5") == value


class Job:
    """A job that says one line more at each look, and ends at the third."""

    looks = 0

    def describe(self, job):
        self.looks += 1
        status = "Completed" if self.looks == 3 else "Training"
        transitions = [{"Status": "Training", "StatusMessage": "in progress"}] * (self.looks > 1)
        primary = "Completed" if self.looks == 3 else "InProgress"
        part = {"SecondaryStatus": status, "SecondaryStatusTransitions": transitions}
        return {**ENDED, **part, "TrainingJobStatus": primary}

    def read_log(self, job, tokens):
        return [LogLine(host="algo-1", time_ms=self.looks, text=f"line {self.looks}")]


def test_a_watch_shows_everything_once_and_ends_with_the_job():
    events = list(watch(Job(), "j", wait=lambda seconds: None))
    assert [e.text for e in events if isinstance(e, LogLine)] == ["line 1", "line 2", "line 3"]
    assert len([e for e in events if isinstance(e, Transition)]) == 1
    assert isinstance(events[-1], Ended)


def test_the_last_line_of_a_running_job_fits_and_moves_no_cursor():
    phase = {"Status": "Training", "StatusMessage": "", "StartTime": datetime.now(UTC)}
    job = {
        **ENDED,
        "TrainingJobStatus": "InProgress",
        "SecondaryStatus": "Training",
        "SecondaryStatusTransitions": [phase],
    }
    tail = [LogLine(host="algo-1", time_ms=0, text="\x1b[2J50 %" + "x" * 3_000_000)]
    last = render_running(job, tail)[-1]
    assert last.startswith("  log     [2J50 %xxx")
    assert len(last) < 300


class PagedApi(Api):
    """Two hosts with a log of many pages; counts those that are read."""

    pages = 0

    def __init__(self):
        pass

    def _stream_names(self, job):
        return [f"{job}/algo-1-1", f"{job}/algo-2-1"]

    def call(self, service, operation, **place):
        self.pages += 1
        number = int(place.get("nextToken", "0"))
        host = place["logStreamName"][-3]
        last = number == 1000
        events = [{"timestamp": 10 * number + int(host), "message": f"{number} of {host}"}]
        return {"events": [] if last else events, "nextForwardToken": str(number + (not last))}


def test_a_huge_log_is_read_as_it_is_printed_and_hosts_are_in_order():
    api = PagedApi()
    lines = api.read_log("j", {})
    first = [next(lines).text for _ in range(4)]
    assert first == ["0 of 1", "0 of 2", "1 of 1", "1 of 2"]
    assert api.pages < 10
    assert len(list(lines)) == 2000 - 4


class Screen(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_keeps_one_line_at_the_bottom_and_a_pipe_has_none():
    screen, pipe = Screen(), io.StringIO()
    events = [
        CurrentStatus(status="Starting", seconds=3),
        Transition(status="Training", message="in progress"),
        CurrentStatus(status="Training", seconds=65, metrics={"loss": 0.5}),
        LogLine(host="algo-1", time_ms=0, text="a line"),
        Ended(description=ENDED),
    ]
    for stream in (screen, pipe):
        assert show(events, Terminal(stream), hosts=1) == ENDED
    assert pipe.getvalue() == "» Training: in progress\na line\n"
    first, second, erase = "» Starting, 3 s", "» Training, 1 min 05 s  loss 0.5", "\r\x1b[K"
    assert screen.getvalue() == (
        f"{first}{erase}» Training: in progress\n{first}{erase}{second}"
        f"{erase}a line\n{second}{erase}"
    )


def test_what_the_platform_copies_is_seen_in_a_pipe_too():
    text = "Downloading input data: train: 1 GB of 2 GB, 100 MB/s, 10 s left"
    job = {
        **ENDED,
        "TrainingJobStatus": "InProgress",
        "SecondaryStatus": "Downloading",
        "SecondaryStatusTransitions": [{"Status": "Downloading", "StatusMessage": text}],
    }
    line = read_transfer(job)
    assert line == "train: 1 GB of 2 GB, 100 MB/s, 10 s left"
    times = iter([0.0, 5.0, 11.0, 11.0, 12.0])
    now = CurrentStatus(status="Downloading", seconds=11, transfer=line)
    pipe = io.StringIO()
    show(
        [now, now, now, Ended(description=ENDED)],
        Terminal(pipe, clock=lambda: next(times)),
        hosts=1,
    )
    assert pipe.getvalue() == f"» Downloading, 11 s  {line}\n"


def test_metrics_of_job_log_are_read_without_a_definition():
    line = make_line(3, {"loss": 0.5, "val acc": 0.25})
    assert read_metrics({}, f"rank 0: {line}") == {"loss": 0.5, "val acc": 0.25}


def test_the_summary_tells_reason_metrics_savings_and_the_place_of_the_model(tmp_path):
    model = tmp_path / "s3/b/j/output/model.tar.gz"
    model.parent.mkdir(parents=True)
    model.touch()
    spot = {"EnableManagedSpotTraining": True, "TrainingTimeInSeconds": 100}
    metrics = [{"MetricName": "loss", "Value": 0.25}]
    job = {**ENDED, **spot, "BillableTimeInSeconds": 75, "FinalMetricDataList": metrics}
    text = "\n".join(render_summary({**job, "FailureReason": "a\nb"}, Root(tmp_path)))
    assert "1 min 40 s of training, 1 min 15 s billable (spot saves 25 %)" in text
    assert "metrics loss 0.25" in text
    assert "reason  a\n          b" in text
    assert str(model) in text


def test_the_summary_names_the_page_of_the_rules_where_there_is_one(tmp_path):
    page = tmp_path / "s3/b/j/rule-output/report.html"
    assert "report" not in "\n".join(render_summary(ENDED, Root(tmp_path)))
    page.parent.mkdir(parents=True)
    page.touch()
    assert f"  report  {page}" in render_summary(ENDED, Root(tmp_path))


def test_durations_are_short():
    assert [show_elapsed(s) for s in (7.9, 185, 7800)] == ["7 s", "3 min 05 s", "2 h 10 min"]


def test_paths_outside_the_platform_are_not_models(tmp_path):
    job = {**ENDED, "ModelArtifacts": {"S3ModelArtifacts": ""}}
    assert "left nothing" in "\n".join(render_summary(job, Root(Path(tmp_path))))

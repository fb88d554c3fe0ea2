"""The client's pure parts: what is sent, what is read from a log, what is shown."""

from __future__ import annotations

import io
import os
import tarfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stoker.cli.client.display import render_summary, show
from stoker.cli.client.sagemaker import LogLine
from stoker.cli.client.submission import TrainingSpec, make_submission, pack_source
from stoker.cli.client.watch import Ended, Progress, Transition, read_metrics, watch
from stoker.machine.terminal import Terminal, make_duration
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


def test_an_unchanged_folder_goes_to_the_same_place_a_changed_one_elsewhere(spec):
    first, again = make_submission(spec), make_submission(spec)
    assert first == again
    file = spec.channels["train"] / "a.txt"
    os.utime(file, ns=(1, 1))
    assert make_submission(spec).uploads[0].prefix != first.uploads[0].prefix


def test_what_lies_on_s3_is_not_sent(spec):
    submission = make_submission(spec)
    assert [upload.folder for upload in submission.uploads] == [spec.channels["train"]]
    channels = {
        channel["ChannelName"]: channel["DataSource"]["S3DataSource"]["S3Uri"]
        for channel in submission.request["InputDataConfig"]
    }
    assert channels["old"] == "s3://b/old"
    assert submission.source_key == "j/source/sourcedir.tar.gz"


def test_the_code_is_packed_without_what_no_job_needs(spec, tmp_path):
    for name in (".git/HEAD", "pkg/__pycache__/a.pyc", "pkg/a.py"):
        file = spec.source_dir / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    pack_source(spec.source_dir, tmp_path / "code.tar.gz")
    with tarfile.open(tmp_path / "code.tar.gz") as archive:
        assert sorted(m.name for m in archive if m.isfile()) == ["pkg/a.py", "train.py"]


@pytest.mark.parametrize(
    ("regex", "value"),
    [("loss=([0-9.]+)", {"m": 0.5}), ("loss=(x)?", {}), ("loss=.*", {}), ("loss=(", {})],
)
def test_metrics_are_read_from_a_line_and_a_bad_regex_is_no_harm(regex, value):
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


class Screen(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_keeps_one_line_at_the_bottom_and_a_pipe_has_none():
    screen, pipe = Screen(), io.StringIO()
    events = [
        Progress(status="Starting", seconds=3),
        Transition(status="Training", message="in progress"),
        Progress(status="Training", seconds=65, metrics={"loss": 0.5}),
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
    assert [make_duration(s) for s in (7.9, 185, 7800)] == ["7 s", "3 min 05 s", "2 h 10 min"]


def test_paths_outside_the_platform_are_no_models(tmp_path):
    job = {**ENDED, "ModelArtifacts": {"S3ModelArtifacts": ""}}
    assert "left nothing" in "\n".join(render_summary(job, Root(Path(tmp_path))))

"""`stoker tune` as a user calls it."""

from __future__ import annotations

import csv
import io
import json
import re
import signal
from pathlib import Path

import botocore.session
import pytest

from stoker.cli.client.interrupts import Interrupts
from stoker.cli.client.tuning_display import TrialRow, make_sparkline, render_table
from stoker.cli.commands import tune
from stoker.machine.failures import UsageRefused
from stoker.machine.terminal import Terminal

from .conftest import DEADLINE_SECONDS, wait_for_line

SCRIPT = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float)
parser.add_argument("--opt")
parser.add_argument("--words")
args = parser.parse_args()
for epoch in range(3):
    print(f"[metric] step={epoch} acc={args.rate + epoch / 100}", flush=True)
"""
ENDLESS = SCRIPT + "\nimport time\nwhile True:\n    time.sleep(1)\n"
SPACE = ("--range", "rate=0.1..0.9", "--choice", "opt=sgd,adam", "--maximize", "acc")


@pytest.fixture
def project(cli):
    (cli.folder / "src").mkdir()
    (cli.folder / "src/train.py").write_text(SCRIPT)
    (cli.folder / "src/endless.py").write_text(ENDLESS)
    return cli


def test_a_search_is_watched_and_its_results_are_shown_in_every_form(project):
    words = ("--trials", "3", "--parallel", "2", "--seed", "7", "--strategy", "random")
    done = project.on_platform(
        *("tune", "src/train.py", *SPACE, *words, "--name", "search", "--engine", "process"),
        *("--param", "words=two words", "--max-run", "1h", "--page", "page.html"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "trial 3 Completed" in done.stdout
    assert "tune: search is Completed" in done.stdout
    assert (project.folder / "page.html").read_text().startswith("<!doctype html>")
    shown = project.on_platform("tune", "show", "search", "--csv")
    rows = list(csv.DictReader(io.StringIO(shown.stdout)))
    assert [row["trial"] for row in rows] == ["1", "2", "3"]
    assert {row["state"] for row in rows} == {"Completed"}
    found = json.loads(project.on_platform("tune", "show", "search", "--json").stdout)
    assert [len(trial["values"]) for trial in found["trials"]] == [3, 3, 3]
    best = max(rows, key=lambda row: float(row["objective"]))
    again = project.on_platform("tune", "best", "search").stdout
    script = project.folder / "src/train.py"
    assert again.startswith(f"stoker train {script} --image stoker:cpu --param 'words=two words'")
    assert f"--param rate={best['rate']}" in again
    assert "--max-run 3600s" in again
    assert again.endswith(f" --root {project.platform}\n")
    unknown = project.on_platform("tune", "best", "none")
    assert unknown.returncode == 2
    assert "can't find a tuning job called none" in unknown.stderr


def test_with_csv_and_json_stdout_has_nothing_else(project):
    words = ("--trials", "1", "--strategy", "random", "--engine", "process")
    done = project.on_platform("tune", "src/train.py", *SPACE, *words, "--csv")
    assert done.returncode == 0, done.stderr
    assert [row["trial"] for row in csv.DictReader(io.StringIO(done.stdout))] == ["1"]
    assert "trial 1 Completed" in done.stderr
    done = project.on_platform("tune", "src/train.py", *SPACE, *words, "--json", "--name", "j")
    assert json.loads(done.stdout)["search"]["HyperParameterTuningJobStatus"] == "Completed"


def test_ctrl_c_stops_the_search_and_keeps_everything(project):
    project.up()
    process = project.start(
        *("tune", "src/endless.py", *SPACE, "--trials", "9", "--name", "long"),
        *("--root", str(project.platform)),
        PYTHONUNBUFFERED="1",
    )
    wait_for_line(process, "trial 1 InProgress")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 130, err
    assert "every trial and its results are kept" in out
    assert "tune: long is Stopped" in out
    stopped = project.on_platform("tune", "stop", "long")
    assert stopped.returncode == 2
    assert "is in status Stopped" in stopped.stderr


def test_two_ctrl_c_at_once_still_stop_the_search(project):
    project.up()
    process = project.start(
        *("tune", "src/endless.py", *SPACE, "--trials", "9", "--name", "hasty"),
        *("--root", str(project.platform)),
        PYTHONUNBUFFERED="1",
    )
    wait_for_line(process, "trial 1 InProgress")
    process.send_signal(signal.SIGINT)
    pending = Path(f"/proc/{process.pid}/status")
    while re.search(r"^ShdPnd:\s+0*2$", pending.read_text(), re.M):
        pass  # a second one that comes before the first was taken would be one with it
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 130, out + err
    assert "Traceback" not in err
    shown = json.loads(project.on_platform("tune", "show", "hasty", "--json").stdout)
    assert shown["search"]["HyperParameterTuningJobStatus"] in ("Stopping", "Stopped")


def test_a_dry_run_prints_the_request(project):
    done = project.run(
        *("tune", "src/train.py", "--range", "lr=1e-5..1e-1:log", "--range", "layers=1..4"),
        *("--minimize", "loss=loss ([0-9.]+)", "--strategy", "hyperband", "--max-epochs", "9"),
        *("--trials", "20", "--tag", "team=a", "--dry-run", "--engine", "process"),
    )
    assert done.returncode == 0, done.stderr
    request = json.loads(done.stdout)
    config = request["HyperParameterTuningJobConfig"]
    assert config["ParameterRanges"]["ContinuousParameterRanges"] == [
        {"Name": "lr", "MinValue": "1e-5", "MaxValue": "1e-1", "ScalingType": "Logarithmic"}
    ]
    assert config["ParameterRanges"]["IntegerParameterRanges"][0]["Name"] == "layers"
    assert config["HyperParameterTuningJobObjective"] == {
        "Type": "Minimize",
        "MetricName": "loss",
    }
    definition = request["TrainingJobDefinition"]
    assert definition["CheckpointConfig"]["S3Uri"].endswith("/checkpoints")
    assert {"Key": "team", "Value": "a"} in request["Tags"]


@pytest.mark.parametrize("variable", ["STOKER_PROFILE=auto", "STOKER_DEBUG=collections=losses"])
def test_a_trial_has_only_what_the_service_knows_of_it(project, variable):
    done = project.run(
        *("tune", "src/train.py", *SPACE, "--env", variable, "--dry-run", "--engine", "process")
    )
    assert done.returncode == 0, done.stderr
    model = botocore.session.Session().get_service_model("sagemaker")
    known = model.shape_for("HyperParameterTrainingJobDefinition").members
    assert json.loads(done.stdout)["TrainingJobDefinition"].keys() <= known.keys()


class EndingSearch:
    """A platform whose search ends between a look at it and the request to stop it."""

    status = "InProgress"

    def call(self, _service, operation, **_parameters):
        if operation == "StopHyperParameterTuningJob":
            self.status = "Completed"
            raise UsageRefused("it is in status Completed", fix="nothing")
        objective = {"Type": "Minimize", "MetricName": "loss"}
        return {
            "HyperParameterTuningJobStatus": self.status,
            "HyperParameterTuningJobConfig": {"HyperParameterTuningJobObjective": objective},
        }

    def pages(self, *_words, **_parameters):
        return [{"TrainingJobSummaries": []}]

    def find_full_disk(self):
        return ""


def test_ctrl_c_in_the_moment_of_the_end_shows_the_results(monkeypatch):
    monkeypatch.setattr(tune, "_LOOK_SECONDS", 0.0)
    interrupts = Interrupts()
    interrupts.count = 1
    shown = Terminal(io.StringIO())
    description, _ = tune._watch_to_the_end(EndingSearch(), "search", shown, interrupts)
    assert description["HyperParameterTuningJobStatus"] == "Completed"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--range", "lr=1", "--maximize", "a"), "is not NAME=LOW..HIGH"),
        (("--range", "lr=1..2:cubic", "--maximize", "a"), "is not NAME=LOW..HIGH"),
        (("--choice", "opt", "--maximize", "a"), "is not NAME=A,B"),
        (("--range", "lr=2..1", "--maximize", "a"), "must be less than its MaxValue"),
        (("--range", "lr=0..1:log", "--maximize", "a"), "needs a range above 0"),
        (("--range", "lr=1..2"), "needs one objective"),
        (("--range", "lr=1..2", "--maximize", "a", "--minimize", "b"), "needs one objective"),
        (("--maximize", "a"), "at least one range"),
        (("--range", "lr=1..2", "--maximize", "a=x[0-9]"), "put parentheses"),
        (("--range", "n=1..3", "--maximize", "a"), "don't have enough combinations"),
        (("--range", "lr=.1..2.", "--maximize", "a", "--strategy", "hyperband"), "MaxResource"),
        (("--range", "lr=.1..2.", "--maximize", "a", "--param", "lr=1"), "static and tunable"),
        (("--range", "lr=.1..2.", "--maximize", "a", "--parallel", "0"), "at least 1"),
        (("--range", "lr=.1..2.", "--maximize", "a", "--seed", "-1"), "at least 0"),
        (("--range", "lr=.1..2.", "--maximize", "a", "--target", "nan"), "finite number"),
        (("--range", "lr=.1..2.", "--maximize", "a", "--name", "x" * 33), "up to 32"),
    ],
)
def test_a_search_that_cannot_work_is_refused_before_anything_starts(project, words, text):
    done = project.run("tune", "src/train.py", *words, "--dry-run", "--engine", "process")
    assert done.returncode == 2, done.stdout
    assert text in done.stderr


def test_a_table_marks_the_best_and_draws_curves():
    rows = [
        TrialRow(
            number=n,
            job=f"j{n}",
            parameters={"lr": f"0.{n}"},
            state="Completed",
            curve=(1.0, 3.0, 2.0),
            is_best=n == 2,
        )
        for n in (1, 2)
    ]
    head, first, second = render_table(rows)
    assert head.split() == ["trial", "lr", "last", "best", "state", "curve"]
    assert first.split() == ["1", "0.1", "2", "3", "Completed", "▁█▅"]
    assert second.startswith("*")
    assert make_sparkline([]) == ""
    assert make_sparkline([5.0] * 3) == "▁▁▁"
    assert len(make_sparkline(range(1000))) <= 16

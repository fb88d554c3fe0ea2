"""Options of `stoker train`, `[train]` in stoker.toml, and `stoker rerun`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from stoker.cli.commands.rerun import make_changes
from stoker.cli.main import main, make_parser

from .conftest import Cli

SCRIPT = """
import os, sys
print("arguments", sys.argv[1:], os.environ.get("COLOUR"))
print(sorted(os.listdir("/opt/ml/input/data")) if os.path.isdir("/opt/ml/input/data") else "")
for name in sorted(os.environ):
    if name.startswith("SM_CHANNEL_"):
        print(name, sorted(os.listdir(os.environ[name])))
print("[metric] step=1 loss=0.5")
"""


@pytest.fixture
def project(cli):
    for name in ("src", "data", "other"):
        (cli.folder / name).mkdir()
        (cli.folder / name / f"{name}.txt").write_text(name)
    (cli.folder / "src/train.py").write_text(SCRIPT)
    return cli


def request_of(cli, *words):
    """What a dry run prints."""
    done = cli.on_platform("train", "src/train.py", "--engine", "process", "--dry-run", *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_container_is_kept_for_ten_minutes_where_the_service_would_allow_it(project):
    def kept(*arguments):
        return request_of(project, *arguments)["ResourceConfig"].get("KeepAlivePeriodInSeconds")

    assert (kept(), kept("--keep-alive", "0")) == (600, None)
    assert (kept("--spot", "after=30s"), kept("--instances", "2")) == (None, None)


def test_every_option_is_in_the_request(project):
    request = request_of(
        project,
        *("--max-run", "2h", "--instance-type", "ml.g5.xlarge", "--volume", "100"),
        *("--tag", "team=stokers", "--tag", "empty=", "--keep-alive", "1h"),
    )
    assert request["StoppingCondition"] == {"MaxRuntimeInSeconds": 7200}
    assert request["ResourceConfig"] == {
        "InstanceType": "ml.g5.xlarge",
        "InstanceCount": 1,
        "VolumeSizeInGB": 100,
        "KeepAlivePeriodInSeconds": 3600,
    }
    tags = [{"Key": "team", "Value": "stokers"}, {"Key": "empty", "Value": ""}]
    assert request["Tags"] == tags
    spot = request_of(project, "--spot", "after=30s", "--max-run", "20d")["StoppingCondition"]
    assert spot["MaxWaitTimeInSeconds"] >= spot["MaxRuntimeInSeconds"] == 20 * 24 * 3600


def test_a_channel_may_be_above_this_folder_and_behind_a_link(project):
    (project.folder / "src/link").symlink_to("../data")
    for place in ("src/../data", "src/link/../data"):
        request = request_of(project, "--channel", f"train={place}")
        address = request["InputDataConfig"][0]["DataSource"]["S3DataSource"]["S3Uri"]
        assert address == f"file://{project.folder}/data"


def test_two_jobs_of_one_second_have_two_names(project):
    names = {request_of(project)["TrainingJobName"] for _ in range(2)}
    assert len(names) == 2


TOML = """
[train]
image = "stoker:own"
instance_type = "ml.g5.xlarge"
max_run = "30m"
instances = 2
volume = 50
channels = { train = "../data", far = "s3://bucket/far" }
parameters = { lr = 0.1, epochs = 3, fast = true, name = "änne" }
metrics = { loss = "loss=([0-9.]+)" }
environment = { COLOUR = "red" }
tags = { team = "a" }

[rules]
VanishingGradient = true
"""


@pytest.mark.parametrize("place", ["src", "."])
def test_defaults_of_stoker_toml_reach_the_request(project, place):
    text = TOML if place == "src" else TOML.replace("../data", "data")
    (project.folder / place / "stoker.toml").write_text(text)
    request = request_of(project)
    algorithm = request["AlgorithmSpecification"]
    assert algorithm["TrainingImage"] == "stoker:own"
    assert algorithm["MetricDefinitions"] == [{"Name": "loss", "Regex": "loss=([0-9.]+)"}]
    parameters = {"lr": "0.1", "epochs": "3", "fast": "true", "name": "änne"}
    assert request["HyperParameters"] == {**parameters, "sagemaker_program": "train.py"}
    names = [channel["ChannelName"] for channel in request["InputDataConfig"]]
    assert names == ["train", "far", "code"]
    assert request["Environment"] == {"COLOUR": "red"}
    assert request["Tags"] == [{"Key": "team", "Value": "a"}]
    assert request["StoppingCondition"] == {"MaxRuntimeInSeconds": 1800}
    resources = {"InstanceType": "ml.g5.xlarge", "InstanceCount": 2, "VolumeSizeInGB": 50}
    assert request["ResourceConfig"] == resources


def test_a_channel_of_stoker_toml_may_be_below_the_home_folder(project):
    (project.folder / "src/stoker.toml").write_text('[train]\nchannels = { train = "~/data" }\n')
    done = project.on_platform(
        *("train", "src/train.py", "--engine", "process", "--dry-run"), HOME=str(project.folder)
    )
    assert done.returncode == 0, done.stderr
    channel = json.loads(done.stdout)["InputDataConfig"][0]
    assert channel["DataSource"]["S3DataSource"]["S3Uri"] == f"file://{project.folder}/data"


def test_the_command_line_wins_over_stoker_toml(project):
    (project.folder / "src/stoker.toml").write_text(TOML.replace("../data", "../not-there"))
    request = request_of(
        project,
        *("--image", "stoker:cpu", "--channel", "train=other", "--param", "lr=0.5"),
        *("--env", "COLOUR=blue", "--instances", "1", "--tag", "team=b", "--max-run", "1h"),
        *("--", "--epochs", "7"),
    )
    assert request["AlgorithmSpecification"]["TrainingImage"] == "stoker:cpu"
    parameters = request["HyperParameters"]
    assert (parameters["lr"], parameters["epochs"], parameters["fast"]) == ("0.5", "7", "true")
    assert request["Environment"] == {"COLOUR": "blue"}
    assert request["ResourceConfig"]["InstanceCount"] == 1
    assert request["Tags"] == [{"Key": "team", "Value": "b"}]
    assert request["StoppingCondition"] == {"MaxRuntimeInSeconds": 3600}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[train]\nparametres = { lr = 1 }", "did you mean parameters?"),
        ("[train]\ncolour = 1", "known are channels, environment, image"),
        ("[train]\nchannels = 'data'", "channels is 'data', but a table is expected"),
        ("[train]\nparameters = { lr = [1, 2] }", "parameters.lr is [1, 2], but a text"),
        ("[train]\nparameters = { 'a=b' = 1 }", "'a=b' is not a valid name"),
        ("[train]\nimage = 3\nvolume = 'x'", "image is 3, but a text is expected; volume is 'x'"),
        ("train = 3", "is 3, but a table is expected"),
        ("[train", "cannot be read: "),
        ("[train]\nvolume = 0", "--volume 0"),
        ("[train]\nmax_run = 'soon'", "'soon' is not a duration"),
        ("[train]\nparameters = { 'l r' = 1 }", "'l r' is not a valid parameter name"),
        ("[train]\nchannels = { train = 'gone' }", "gone is not a folder"),
    ],
)
def test_mistakes_in_stoker_toml_are_refused_by_name(project, monkeypatch, capsys, text, words):
    monkeypatch.chdir(project.folder)
    (project.folder / "src/stoker.toml").write_text(text)
    place = ("--engine", "process", "--root", str(project.platform))
    assert main(["train", "src/train.py", *place]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("fix: ") == 1
    assert not project.platform.exists()


@pytest.mark.parametrize("kind", ["folder", "fifo"])
def test_a_stoker_toml_that_is_no_file_is_not_a_matter_of_utf_8(project, kind):
    file = project.folder / "src/stoker.toml"
    file.mkdir() if kind == "folder" else os.mkfifo(file)
    done = project.on_platform("train", "src/train.py", "--dry-run")
    assert done.returncode == 2
    assert "fix: make it a file that this user may read" in done.stderr
    gone = project.on_platform("train", "src/gone.py", "--dry-run")
    assert "there is no file" in gone.stderr  # the script is looked at first


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--max-run", "soon"), "'soon' is not a duration"),
        (("--max-run", "0s"), "--max-run 0s"),
        (("--max-run", "29d"), "--max-run 29d"),
        (("--volume", "0"), "--volume 0"),
        (("--tag", "x"), "--tag x is not NAME=VALUE"),
        (("--name", ""), "'' is not a valid job name"),
    ],
)
def test_wrong_options_end_with_2(project, monkeypatch, capsys, words, said):
    monkeypatch.chdir(project.folder)
    assert main(["train", "src/train.py", "--dry-run", "--engine", "process", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A platform with a job that has ended: `first`, submitted by --detach --json."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "data").mkdir()
    (folder / "data/coal.txt").write_text("coal")
    (folder / "train.py").write_text(SCRIPT)
    command = Cli(folder, folder / "platform")
    command.up()
    try:
        words = ("train", "train.py", "--name", "first", "--channel", "train=data")
        options = ("--param", "lr=0.1", "--param", "epochs=2", "--env", "COLOUR=red")
        done = command.on_platform(*words, *options, "--tag", "team=a", "--detach", "--json")
        assert done.returncode == 0, done.stderr
        yield command, done
    finally:
        command.down()


def test_a_detached_job_returns_at_once_and_says_how_to_continue(trained):
    command, done = trained
    assert json.loads(done.stdout)["TrainingJobName"] == "first"
    assert "train: first is submitted" in done.stderr
    assert f"stoker logs first --follow --root {command.platform}" in done.stderr
    assert "Completed" in command.on_platform("status", "first", "--follow").stdout


def test_with_json_stdout_is_the_job_and_the_log_goes_to_stderr(trained):
    command, _ = trained
    done = command.on_platform("train", "train.py", "--json")
    assert done.returncode == 0, done.stderr
    job = json.loads(done.stdout)
    assert job["TrainingJobStatus"] == "Completed"
    assert job["FinalMetricDataList"][0]["MetricName"] == "loss"
    assert "arguments [] None" in done.stderr


def test_rerun_takes_code_data_and_request_of_the_job_and_changes_what_is_said(trained):
    command, _ = trained
    assert "Completed" in command.on_platform("status", "first", "--follow").stdout
    script = command.folder / "train.py"
    os.rename(script, command.folder / "moved.py")  # the code is kept with the job
    try:
        done = command.on_platform("rerun", "first", "--param", "lr=0.5", "--env", "COLOUR=blue")
    finally:
        os.rename(command.folder / "moved.py", script)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "as first, engine: process" in done.stdout
    for text in ("'--lr', '0.5'", "'--epochs', '2'", "] blue", "SM_CHANNEL_TRAIN ['coal.txt']"):
        assert text in done.stdout
    again = command.on_platform("rerun", "first", "--dry-run", "--max-run", "1h", "--name", "new")
    request = json.loads(again.stdout)
    assert request["TrainingJobName"] == "new"
    assert request["StoppingCondition"]["MaxRuntimeInSeconds"] == 3600
    assert request["Tags"] == [{"Key": "team", "Value": "a"}]


def test_a_terminal_that_is_not_utf_8_shows_the_job_to_its_end(trained):
    command, _ = trained
    script = command.folder / "unicode.py"
    script.write_text("print('loss ✓ änne')", encoding="utf-8")
    done = command.on_platform("train", "unicode.py", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "loss \\u2713 \\xe4nne" in done.stdout
    done = command.on_platform("train", "--help", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr


def test_a_closed_stdout_is_no_error(trained):
    command, _ = trained
    words = [sys.executable, "-m", "stoker.cli.main", "status", "--root", str(command.platform)]
    done = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *words], stderr=subprocess.PIPE, text=True, timeout=240
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "job", ["net", "net-20261118-155001-106", "net-20261118-155001", "net-2026-11-18-15-51-11-613"]
)
def test_the_name_of_a_rerun_has_the_time_once(job):
    args = make_parser().parse_args(["rerun", job])
    assert re.fullmatch(r"net-\d{8}-\d{6}-\d{3}", make_changes(args)["TrainingJobName"])


def test_rerun_of_a_spot_job_does_not_resume_from_its_checkpoints(trained):
    command, _ = trained
    words = ("train", "train.py", "--name", "spot", "--spot", "after=100h")
    assert command.on_platform(*words).returncode == 0
    done = command.on_platform("rerun", "spot", "--dry-run", "--name", "second")
    request = json.loads(done.stdout)
    assert request["CheckpointConfig"]["S3Uri"].endswith("/second/checkpoints")
    done = command.on_platform("rerun", "spot", "--name", "third")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("firs",), "did you mean first?"),
        (("first", "--name", "first"), "choose another --name"),
        (("first", "--param", "l r=1"), "is not a valid parameter name"),
        (("first", "--max-run", "x"), "is not a duration"),
    ],
)
def test_mistakes_of_rerun_end_with_2(trained, words, said):
    command, _ = trained
    done = command.on_platform("rerun", *words)
    assert done.returncode == 2, done.stdout + done.stderr
    assert said in done.stderr


@pytest.mark.parametrize("words", [("x" * 300 + ".py",), ("src/train.py", "--channel", "x" * 300)])
def test_a_name_that_this_machine_refuses_is_not_an_internal_error(project, words):
    words = [f"a={word}" if "--channel" in words and word[0] == "x" else word for word in words]
    done = project.on_platform("train", *words, "--engine", "process")
    assert done.returncode == 3
    assert "File name too long: /" in done.stderr
    assert "fix: use a shorter name" in done.stderr

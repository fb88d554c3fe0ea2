"""`stoker train` as a user calls it: one CreateTrainingJob on the platform of this machine."""

from __future__ import annotations

import json
import os
import re
import signal
import tarfile

import pytest

from stoker.cli.main import main

from .conftest import DEADLINE_SECONDS, wait_for_line

SCRIPT = """
import os, sys
print(open(os.environ["SM_CHANNEL_TRAIN"] + "/words.txt").read(), sys.argv[1:])
print("loss=0.25")
open(os.environ["SM_MODEL_DIR"] + "/model.bin", "w").write("trained")
sys.exit(int(os.environ.get("SM_HP_CODE", "0")))
"""
PATIENT = """
import signal, sys, time
signal.signal(signal.SIGTERM, {handler})
print("ready", flush=True)
while True:
    time.sleep(1)
"""


@pytest.fixture
def project(cli):
    folder = cli.folder
    for name in ("src", "data"):
        (folder / name).mkdir()
    (folder / "data/words.txt").write_text("coal")
    (folder / "src/train.py").write_text(SCRIPT)
    (folder / "src/saves.py").write_text(PATIENT.format(handler="lambda *_: sys.exit(0)"))
    (folder / "src/deaf.py").write_text(PATIENT.format(handler="signal.SIG_IGN"))
    return cli


@pytest.mark.parametrize("engine", ["process", pytest.param("docker", marks=pytest.mark.docker)])
def test_a_script_is_trained_and_its_model_packed(project, engine):
    done = project.on_platform(
        *("train", "src/train.py", "--channel", "train=data", "--param", "lr=0.1"),
        *("--metric", "loss=loss=([0-9.]+)", "--engine", engine, "--name", f"job-{engine}"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "train: started the platform at http://127.0.0.1:" in done.stdout
    assert "coal ['--lr', '0.1']" in done.stdout
    assert re.search(r"metrics +loss 0.25", done.stdout)
    model = f"sagemaker-us-east-1-000000000000/job-{engine}/output/model.tar.gz"
    assert f"s3://{model}" in done.stdout
    with tarfile.open(project.platform / "s3" / model) as archive:
        assert archive.getnames() == ["model.bin"]


def test_a_failed_job_ends_with_1_and_its_reason_and_a_name_is_used_once(project):
    words = ("train", "src/train.py", "--channel=train=data", "--param=code=9", "--name=once")
    done = project.on_platform(*words, "--engine=process")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "train: failed" in done.stdout
    assert re.search(r"reason +AlgorithmError: .*exit code: 9", done.stdout, re.DOTALL)
    again = project.on_platform(*words)
    assert again.returncode == 2
    assert "there is a job once already" in again.stderr


def test_a_dry_run_prints_the_request_and_makes_nothing(project):
    done = project.on_platform(
        *("train", "src/train.py", "--channel", "train=data", "--param", "lr=0.1"),
        *("--instances", "2", "--spot", "after=30s", "--dry-run"),
        *("--env", "STOKER_DEBUG=collections=weights every=10"),
    )
    assert done.returncode == 0, done.stderr
    request = json.loads(done.stdout)
    assert request["HyperParameters"] == {"lr": "0.1", "sagemaker_program": "train.py"}
    assert request["ResourceConfig"]["InstanceCount"] == 2
    assert request["EnableManagedSpotTraining"] is True
    assert request["Environment"] == {
        "STOKER_DEBUG": "collections=weights every=10",
        "STOKER_SPOT": "after=30s",
    }
    assert "DebugHookConfig" in request  # else the tensors would go with the container
    assert [channel["ChannelName"] for channel in request["InputDataConfig"]] == ["train", "code"]
    assert sorted(os.listdir(project.folder)) == ["data", "src"]


def test_without_an_engine_it_says_so_and_trains_as_a_process(project):
    # A client that cannot reach any engine stands for a machine without one.
    done = project.on_platform(
        *("train", "src/train.py", "--channel=train=data"),
        DOCKER_HOST="unix:///nonexistent.sock",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "engine: process (" in done.stdout


def test_ctrl_c_stops_the_job_and_waits_for_it(project):
    process = project.start(
        *("train", "src/saves.py", "--engine", "process", "--root", str(project.platform))
    )
    wait_for_line(process, "ready")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 130, out + err
    assert "train: stopping" in out
    assert "train: stopped" in out


def test_a_second_ctrl_c_leaves_the_job_and_says_how_to_go_on(project):
    project.up(STOKER_GRACE_SECONDS="5")
    process = project.start(
        *("train", "src/deaf.py", "--name", "deaf", "--root", str(project.platform))
    )
    wait_for_line(process, "ready")
    process.send_signal(signal.SIGINT)
    wait_for_line(process, "train: stopping")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 130, out + err
    assert f"stoker logs deaf --follow --root {project.platform}" in out
    assert "Traceback" not in err
    assert "Stopped" in project.on_platform("status", "deaf", "--follow").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nope.py"], "nope.py is no file in"),
        (["src/train.py", "--channel", "train"], "is no NAME=VALUE"),
        (["src/train.py", "--channel", "train=nowhere"], "is no folder"),
        (["src/train.py", "--channel", "../x=data"], "is no channel name"),
        (["src/train.py", "--channel", "code=data"], "carries your script"),
        (["src/train.py", "--name", "a b"], "is no name for a job"),
        (["src/train.py", "--param", "lr"], "--param lr is no NAME=VALUE"),
        (["src/train.py", "--metric", "loss=loss=[0-9]+"], "has no group"),
        (["src/train.py", "--instances", "0"], "--instances 0"),
    ],
)
def test_mistakes_end_with_2_and_a_fix(project, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(project.folder)
    place = ["--engine", "process", "--root", str(project.platform)]
    assert main(["train", *arguments, *place]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert "fix: " in said
    assert not project.platform.exists()


@pytest.mark.docker
def test_an_image_that_is_not_there_is_named(project):
    done = project.on_platform("train", "src/train.py", "--image", "no-such-image:ever")
    assert done.returncode == 2, done.stdout
    assert "no-such-image:ever" in done.stderr

"""`stoker train` as a user calls it: one CreateTrainingJob on the platform of this machine."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import tarfile
from contextlib import suppress

import pytest

from stoker.cli.main import main
from tests.platform.local_server import wait_until

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
    assert "a training job with this name already exists" in again.stderr


WRITES = """\
import os, socket
folder = os.environ["SM_CHANNEL_TRAIN"]
print("sees", sorted(os.listdir(folder)), os.path.getsize(folder + "/big.bin"))
with open(folder + "/big.bin", "r+b") as file:
    file.write(b"changed")
os.remove(folder + "/words.txt")
open(folder + "/new", "w").close()
print("leaves", sorted(os.listdir(folder)))
"""


@pytest.mark.parametrize("engine", ["process", pytest.param("docker", marks=pytest.mark.docker)])
def test_a_large_folder_is_not_copied_and_no_job_changes_it(project, engine):
    data = project.folder / "data"
    (project.folder / "src/train.py").write_text(WRITES)
    with (data / "big.bin").open("wb") as file:
        file.truncate(64 << 20)
    words = ("train", "src/train.py", "--channel", "train=data", "--engine", engine)
    done = project.on_platform(*words, "--instances", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    if "is copied:" in done.stdout:
        pytest.skip("this machine cannot mount an overlay")
    assert done.stdout.count("sees ['big.bin', 'words.txt'] 67108864") == 2
    assert done.stdout.count("leaves ['big.bin', 'new']") == 2
    assert sorted(file.name for file in data.iterdir()) == ["big.bin", "words.txt"]
    assert (data / "big.bin").read_bytes().strip(b"\0") == b""
    # What a job wrote over its channel is removed with its folders, just after its end is shown.
    wait_until(lambda: largest_below(project.platform) < 32 << 20, "nothing large is kept")


def largest_below(folder):
    try:
        return max(file.lstat().st_size for file in folder.rglob("*"))
    except FileNotFoundError:  # a folder was removed meanwhile
        return sys.maxsize


def test_a_dry_run_prints_the_request_and_makes_nothing(project):
    done = project.on_platform(
        *("train", "src/train.py", "--channel", "train=data", "--param", "lr=0.1"),
        *("--instances", "2", "--spot", "after=30s", "--dry-run", "--engine", "process"),
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


def test_a_terminal_shows_phase_time_and_metrics_below_the_log(project):
    script = project.folder / "src/logs.py"
    line = 'print("[metric] step=1 loss=0.5 acc=0.75")\nprint("ready", flush=True)'
    script.write_text(
        PATIENT.format(handler="lambda *_: sys.exit(0)").replace(
            'print("ready", flush=True)', line
        )
    )
    words = ("train", str(script), "--engine", "process", "--root", str(project.platform))
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "stoker.cli.main", *words], stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    shown = ""
    try:
        while not re.search(r"» Training, \d+ s  loss 0.5  acc 0.75", shown):
            shown += os.read(ours, 10_000).decode()
        process.send_signal(signal.SIGINT)
        with suppress(OSError):  # how a pseudo-terminal ends
            while more := os.read(ours, 10_000).decode():
                shown += more
        assert process.wait(DEADLINE_SECONDS) == 130, shown
    finally:
        process.kill()
        os.close(ours)
    assert "ready\r\n" in shown
    assert re.search(r"reason +StopTrainingJob was called", shown)


def test_a_second_ctrl_c_leaves_the_job_and_says_how_to_continue(project):
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
        (["nope.py"], "nope.py\n  fix: name a script"),
        (["src/trian.py"], "src/train.py?"),
        (["src"], "src is a folder, but a script is expected\n  fix: name the script: stoker"),
        (["/dev/null"], "/dev/null is not a regular file"),
        (["src/train.py", "--source-dir", "data"], "src/train.py is not in the source folder"),
        (["src/train.py", "--channel", "train"], "is not NAME=VALUE"),
        (["src/train.py", "--channel", "train=nowhere"], "is not a folder"),
        (["src/train.py", "--channel", "../x=data"], "is not a valid channel name"),
        (["src/train.py", "--channel", "code=data"], "carries your script"),
        (["src/train.py", "--name", "a b"], "is not a valid job name"),
        (["src/train.py", "--param", "lr"], "--param lr is not NAME=VALUE"),
        (["src/train.py", "--metric", "loss=loss=[0-9]+"], "has no group"),
        (["src/train.py", "--spot", "every=2x"], "every=2x"),
        (["src/train.py", "--spot", "trace=nowhere.csv"], "nowhere.csv"),
        (["src/train.py", "--param", "lr rate=3"], "lr_rate=3"),
        (["src/train.py", "--param=--lr=3"], "lr=3"),
        (["src/train.py", "--param", "=3"], "is not a valid parameter name"),
        (["src/train.py", "--param", f"x={'v' * 2501}"], "accepts 2500"),
        (["src/train.py", "--param", "sagemaker_program=x.py"], "stoker train SCRIPT"),
        (
            ["src/train.py", "--param", "sagemaker_torch_distributd_enabled=true"],
            "did you mean sagemaker_torch_distributed_enabled?",
        ),
        (["src/train.py", "--", "positional"], "'positional' behind -- is not --NAME VALUE"),
        (["src/train.py", "--", "--fast", "--lr", "1"], "write --fast true"),
        (["src/train.py", "--", "--lr"], "--lr behind -- has no value"),
        (["src/train.py", "--instances", "0"], "--instances 0"),
        (["src/train.py", "--instances", "21"], "use 1 to 20"),
        (["src/train.py", "--env", "A B=3"], "'A B' is not a valid name of a variable"),
        (["src/train.py", "--env", f"A={'v' * 513}"], "accepts 512"),
        (["src/train.py", "--env", "STOKER_ROOT=/x"], "must not have STOKER_ROOT"),
        (["src/train.py", "--channel", "train=s3://X"], "a valid bucket name"),
        (["src/train.py", "--metric", f"{'m' * 256}=(.)"], "accepts 255"),
        (["src/train.py", "--metric", f"m={'x' * 500}(.)"], "accepts 500"),
        (["src/train.py", "--param", "a=1", "--param", "a=2"], "--param names a more than once"),
    ],
)
def test_mistakes_end_with_2_and_a_fix(project, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(project.folder)
    place = ["--engine", "process", "--root", str(project.platform)]
    at = arguments.index("--") if "--" in arguments else len(arguments)
    for more in ([], ["--dry-run"]):
        assert main(["train", *arguments[:at], *place, *more, *arguments[at:]]) == 2
        said = capsys.readouterr().err
        assert words in said
        assert said.count("fix: ") == 1
    assert not project.platform.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a file system")
def test_a_full_disk_is_named_before_anything_is_sent(project, monkeypatch, capsys):
    monkeypatch.chdir(project.folder)
    project.platform.mkdir()
    place = str(project.platform)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", place], check=True)
    try:
        for more in ([], ["--dry-run"]):
            words = ["train", "src/train.py", "--engine", "process", "--root", place]
            assert main([*words, *more]) == 3
            assert f"the disk of {place} is full" in capsys.readouterr().err
        assert not list(project.platform.iterdir())
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


@pytest.mark.docker
@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_an_image_that_is_not_there_is_named_before_anything_is_sent(project, more):
    words = ("train", "src/train.py", "--image", "no-such-image:ever", *more)
    done = project.on_platform(*words)
    assert done.returncode == 2, done.stdout
    assert "Docker has no image no-such-image:ever\n  fix: docker pull no-such-" in done.stderr
    assert not project.platform.exists()


def test_what_follows_two_dashes_is_the_scripts_and_torchrun_is_a_switch(project):
    done = project.on_platform(
        *("train", "--torchrun", "src/train.py", "--channel", "train=data", "--dry-run"),
        *("--engine", "process", "--param", "epochs=1"),
    )
    switch = "sagemaker_torch_distributed_enabled"
    assert json.loads(done.stdout)["HyperParameters"][switch] == "true"
    words = ("train", "src/train.py", "--engine", "process", "--dry-run")
    behind = ("--", "--lr", "-0.1", "--epochs=3", "-b", "8", "--words", "a b")
    done = project.run(*words, *behind)
    assert json.loads(done.stdout)["HyperParameters"] == {
        **{"lr": "-0.1", "epochs": "3", "b": "8", "words": "a b"},
        "sagemaker_program": "train.py",
    }


def test_two_ctrl_c_at_once_still_send_the_stop(project):
    project.up(STOKER_GRACE_SECONDS="5")
    process = project.start(
        *("train", "src/saves.py", "--name", "hasty", "--root", str(project.platform))
    )
    wait_for_line(process, "ready")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 130, out + err
    assert "Traceback" not in err
    assert "Stopped" in project.on_platform("status", "hasty", "--follow").stdout


def test_a_traceback_is_printed_once_and_a_closed_pipe_is_not_an_error(project):
    (project.folder / "src/broken.py").write_text("raise ValueError('the fire is out')")
    words = ("train", "src/broken.py", "--name", "broken", "--engine", "process")
    done = project.on_platform(*words)
    assert done.returncode == 1, done.stderr
    assert done.stdout.count("Traceback (most recent call last)") == 1
    assert re.search(r"reason +AlgorithmError.*ValueError: the fire is out", done.stdout, re.S)
    reader, writer = os.pipe()
    os.close(reader)
    place = ("--root", str(project.platform))
    for verb in (("status",), ("logs", "broken"), ("--help",)):
        arguments = verb if verb == ("--help",) else (*verb, *place)
        shown = subprocess.run(
            [sys.executable, "-m", "stoker.cli.main", *arguments],
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=DEADLINE_SECONDS,
        )
        assert shown.stderr == "", verb
    os.close(writer)


def test_a_server_that_dies_leaves_the_job_and_the_command_says_how_to_continue(project):
    process = project.start(
        *("train", "src/saves.py", "--name", "alone", "--engine", "process"),
        *("--root", str(project.platform)),
    )
    wait_for_line(process, "ready")
    os.kill(json.loads((project.platform / "server.json").read_text())["pid"], signal.SIGKILL)
    out, err = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 3, out + err
    assert f"resume  stoker local up --detach --root {project.platform}" in out
    assert "the platform does not answer" in err
    project.up()
    done = project.on_platform("stop", "alone", "--follow")
    assert "alone is Stopped" in done.stdout, done.stderr


INTERRUPTED = """
import os, signal, sys
from stoker.cli.client.platform_api import Api
from stoker.cli.main import main

def create_and_interrupt(self, request):
    create(self, request)
    os.kill(os.getpid(), signal.SIGINT)  # before the command has seen the answer

create, Api.create = Api.create, create_and_interrupt
sys.exit(main())
"""


def test_ctrl_c_while_the_job_is_being_created_stops_it(project):
    project.up()
    words = ("train", "src/saves.py", "--name", "early", "--root", str(project.platform))
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, *words],
        cwd=project.folder,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
    )
    assert done.returncode == 130, done.stdout + done.stderr
    assert "Stopped" in project.on_platform("status", "early").stdout

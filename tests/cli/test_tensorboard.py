"""`stoker tensorboard` as a user calls it, on the real TensorBoard."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from stoker.cli.tensorboard.program import check_modules, hand_over_keys
from stoker.cli.tensorboard.source import Source, find_source, make_prefix
from stoker.machine.failures import UsageRefused

from .conftest import DEADLINE_SECONDS, wait_for_line

ON_S3 = Source(logdir="s3://bucket/job/tensorboard-output")


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "stoker.cli.main", "tensorboard", *arguments]


def clean(**environ: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "SAGEMAKER_"))}
    # No home: neither its AWS settings nor the platform that may run there are the test's.
    return {**kept, "AWS_EC2_METADATA_DISABLED": "true", "HOME": "/nonexistent", **environ}


def stoker(folder, *arguments, **environ):
    return subprocess.run(
        command(*arguments),
        cwd=folder,
        env=clean(**environ),
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
    )


def test_a_dry_run_prints_the_command_and_every_address(tmp_path):
    (tmp_path / ".work/jobs/job-1/output/tensorboard").mkdir(parents=True)
    done = stoker(tmp_path, "job-1", "--port", "0", "--dry-run")
    assert done.returncode == 0, done.stderr
    port = re.search(r"http://localhost:(\d+)/\n", done.stdout)[1]
    assert f"/proxy/{port}/   (with the last slash)" in done.stdout
    assert f".sagemaker.aws/jupyterlab/default/proxy/{port}/" in done.stdout
    assert f"--logdir {tmp_path}/.work/jobs/job-1/output/tensorboard" in done.stdout


def test_it_becomes_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    process = subprocess.Popen(
        command(str(tmp_path), "--port", "0"), env=clean(), stdout=subprocess.PIPE, text=True
    )
    try:
        address = next(line for line in process.stdout if "http://localhost" in line).split()[-1]
        answer = ask(f"{address}data/environment", process)
        assert json.loads(answer)["data_location"] == str(tmp_path)
    finally:
        process.terminate()
        process.communicate(timeout=DEADLINE_SECONDS)


def test_the_curves_of_a_job_on_the_platform_are_shown_from_its_s3(cli):
    pytest.importorskip("tensorboard")
    (cli.folder / "train.py").write_text("import stoker; stoker.job().log(7, loss=0.25)")
    cli.up()
    done = cli.on_platform("train", "train.py", "--name", "curves")
    assert done.returncode == 0, done.stdout + done.stderr
    # Settings that lead elsewhere must not matter.
    wrong = {"AWS_PROFILE": "other", "S3_ENDPOINT": "http://localhost:1"}
    process = cli.start(
        "tensorboard", "curves", "--port", "0", "--root", str(cli.platform), **wrong
    )
    try:
        seen = wait_for_line(process, "http://localhost")
        assert "/curves/tensorboard-output" in seen
        address = seen.split()[-1]
        points = wait_for_points(f"{address}data/plugin/scalars/scalars?run=.&tag=loss", process)
        assert [point[1:] for point in points] == [[7, 0.25]]
    finally:
        process.terminate()
        process.communicate(timeout=DEADLINE_SECONDS)


def wait_for_points(address: str, process: subprocess.Popen[str]) -> list:
    """The points of a curve, once TensorBoard has read it."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        try:
            return json.loads(ask(address, process))
        except urllib.error.HTTPError as error:  # 404: not read yet
            error.close()
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_a_job_that_the_platform_does_not_have_is_not_looked_for_elsewhere(cli):
    cli.up()
    done = cli.on_platform("tensorboard", "nowhere")
    assert done.returncode == 2
    assert "the platform has no job nowhere" in done.stderr


def ask(address: str, process: subprocess.Popen[str]) -> bytes:
    """The answer, once there is one."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        try:
            with urllib.request.urlopen(address, timeout=240) as answer:
                return answer.read()
        except urllib.error.HTTPError:
            raise
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            assert process.poll() is None, "TensorBoard ended"
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no/folder"], "there is no folder no/folder"),
        (["some-job"], "no AWS region is configured"),
        ([".", "--port", "99999"], "no port is free from 99999"),
    ],
)
def test_mistakes_end_with_2_and_a_fix(tmp_path, arguments, words):
    done = stoker(tmp_path, *arguments)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "fix: " in done.stderr


def test_a_port_in_use_is_said(tmp_path):
    with socket.create_server(("localhost", 0)) as other:
        done = stoker(tmp_path, ".", "--port", str(other.getsockname()[1]))
    assert done.returncode == 2
    assert "choose another --port" in done.stderr


def describe(job: str) -> dict:
    config = {"TensorBoardOutputConfig": {"S3OutputPath": "s3://bucket/boards/"}}
    return {"TrainingJobName": job, **config}


@pytest.mark.parametrize(
    ("text", "logdir"),
    [
        ("s3://bucket/any/prefix/", "s3://bucket/any/prefix"),
        ("my-job", "s3://bucket/boards/my-job/tensorboard-output"),
        ("curves", "{here}/curves"),
        ("one-host", "{here}/one-host/algo-1/output/tensorboard"),
    ],
)
def test_a_folder_an_address_and_a_job_are_told_apart(tmp_path, monkeypatch, text, logdir):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "curves").mkdir()
    (tmp_path / "one-host/algo-1/output/tensorboard").mkdir(parents=True)
    assert find_source(text, describe=describe).logdir == logdir.format(here=tmp_path)


def test_a_job_that_keeps_no_curves_is_told_how_to():
    with pytest.raises(UsageRefused) as caught:
        make_prefix({"TrainingJobName": "bare"})
    assert "bare was started without a TensorBoardOutputConfig" in caught.value.message
    assert "tensorboard_output_config=" in caught.value.fix


def test_what_would_show_an_empty_page_is_refused():
    local = Source(logdir="/some/folder")
    for missing, source in (("tensorboard", local), ("boto3", ON_S3)):
        with pytest.raises(UsageRefused, match=f"{missing} is not installed") as caught:
            check_modules(source, has=lambda name, missing=missing: name != missing)
        assert caught.value.fix == "pip install tensorboard torch-tb-profiler boto3"
    (note,) = check_modules(local, has=lambda name: name != "boto3")
    assert "www.gstatic.com" in note


def test_without_the_plug_in_the_curves_are_shown_and_the_traces_are_said_to_be_missing():
    (note,) = check_modules(ON_S3, has=lambda name: name != "torch_tb_profiler")
    assert "no profiler traces" in note


def test_temporary_keys_reach_processes_that_drop_variables():
    keys = {"AWS_ACCESS_KEY_ID": "ASIA1", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t"}
    environ = hand_over_keys({**keys, "AWS_PROFILE": "work", "PATH": "/bin"})
    file = environ.pop("AWS_SHARED_CREDENTIALS_FILE")
    assert environ == {"AWS_PROFILE": "work", "PATH": "/bin"}
    # A process without our open files, as the plug-in's are.
    shown = subprocess.run(["cat", file], capture_output=True, text=True, check=True).stdout
    os.close(int(file.rpartition("/")[2]))
    assert shown.splitlines() == [
        *("[work]", "aws_access_key_id = ASIA1", "aws_secret_access_key = s"),
        "aws_session_token = t",
    ]


def test_lasting_keys_stay_where_they_are():
    keys = {"AWS_ACCESS_KEY_ID": "AKIA1", "AWS_SECRET_ACCESS_KEY": "s"}
    assert hand_over_keys(keys) == keys

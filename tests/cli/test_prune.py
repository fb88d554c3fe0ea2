"""`stoker local prune`: what goes, what stays, and that a dry run removes nothing."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from stoker.cli.client.pruning import choose_jobs


@pytest.fixture
def project(cli):
    for name, text in {"src/train.py": "print('done')", "data/words.txt": "coal"}.items():
        (cli.folder / name).parent.mkdir()
        (cli.folder / name).write_text(text)
    return cli


def job(name, *, ended, status="Completed"):
    moment = datetime.fromtimestamp(ended, UTC)
    return {
        "TrainingJobName": name,
        "TrainingJobStatus": status,
        "LastModifiedTime": moment,
        "TrainingEndTime": moment,
    }


def test_the_newest_the_young_and_the_running_stay():
    jobs = [
        job("running", ended=90, status="InProgress"),
        job("new", ended=80),
        job("young", ended=60),
        job("old-but-stopping", ended=10, status="Stopping"),
        job("old", ended=10, status="Failed"),
    ]
    chosen = {
        keep: choose_jobs(jobs, keep=keep, older_seconds=30, now=100) for keep in (0, 4, 5, 9)
    }
    assert chosen == {0: ["young", "old"], 4: ["old"], 5: [], 9: []}


def train(project, name, *more):
    words = ("train", "src/train.py", "--channel=train=data", f"--name={name}")
    done = project.on_platform(*words, "--engine=process", *more)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pruning_removes_a_job_with_its_log_and_results_and_keeps_what_others_need(project):
    train(project, "first")
    train(project, "second")
    bucket = next((project.platform / "s3").glob("sagemaker-*"))
    before = {name: (bucket / name).exists() for name in ("first", "second")}
    assert before == {"first": True, "second": True}
    dry = project.on_platform("local", "prune", "--keep", "1", "--dry-run")
    assert "local: 1 job would be removed" in dry.stdout
    assert (bucket / "first/output/model.tar.gz").exists()
    done = project.on_platform("local", "prune", "--keep", "1")
    assert "local: 1 job removed" in done.stdout, done.stderr
    assert not (bucket / "first/output/model.tar.gz").exists()
    assert not (project.platform / "logs/first").exists()
    assert (bucket / "second/output/model.tar.gz").exists()
    assert list((bucket / "stoker/code").glob("*/sourcedir.tar.gz")), "second runs this code"
    assert project.on_platform("status", "first").returncode == 2
    train(project, "first")  # the name is free again
    status = project.on_platform("local", "status", "--json")
    assert json.loads(status.stdout)["objects"].endswith("kB")


def test_the_user_s_data_is_never_touched(project):
    before = {file: file.read_bytes() for file in (project.folder / "data").iterdir()}
    train(project, "only")
    dry = project.on_platform("local", "prune", "--older", "0s", "--dry-run")
    assert "local: 1 job would be removed" in dry.stdout
    done = project.on_platform("local", "prune", "--keep", "0")
    assert "local: 1 job removed" in done.stdout, done.stderr
    assert {file: file.read_bytes() for file in (project.folder / "data").iterdir()} == before

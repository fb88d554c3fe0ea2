"""`stoker train` as a user calls it."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile

import pytest


@pytest.fixture
def project(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data/words.txt").write_text("coal")
    (tmp_path / "src/train.py").write_text(
        "import os, sys\n"
        "print(open(os.environ['SM_CHANNEL_TRAIN'] + '/words.txt').read(), sys.argv[1:])\n"
        "open(os.environ['SM_MODEL_DIR'] + '/model.bin', 'w').write('trained')\n"
        "sys.exit(int(os.environ.get('SM_HP_CODE', '0')))\n"
    )
    return tmp_path


def stoker(folder, *arguments, path=None):
    environ = {**os.environ, "PATH": path or os.environ["PATH"]}
    return subprocess.run(
        [sys.executable, "-m", "stoker.host.cli", "train", *arguments],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("engine", ["process", pytest.param("docker", marks=pytest.mark.docker)])
def test_a_script_is_trained_and_its_model_packed(project, engine):
    done = stoker(
        project,
        *("src/train.py", "--channel", "train=data", "--param", "lr=0.1"),
        *("--engine", engine, "--name", f"job-{engine}"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "coal ['--lr', '0.1']" in done.stdout
    model = project / f".work/jobs/job-{engine}/model.tar.gz"
    assert str(model) in done.stdout
    with tarfile.open(model) as archive:
        assert archive.getnames() == ["model.bin"]


def test_a_failed_job_ends_with_1_and_its_reason(project):
    done = stoker(
        project, "src/train.py", "--channel", "train=data", "--param", "code=9", "--engine=process"
    )
    assert done.returncode == 1
    assert "failed in" in done.stdout
    assert "exit code 9" in done.stdout


def test_a_dry_run_makes_nothing(project):
    done = stoker(project, "src/train.py", "--engine", "process", "--dry-run")
    assert done.returncode == 0
    assert "stoker.runtime" in done.stdout
    assert sorted(os.listdir(project)) == ["data", "src"]


def test_without_an_engine_it_says_so_and_trains_as_a_process(project):
    # A client that cannot reach any engine stands for a machine without one.
    environ = {"DOCKER_HOST": "unix:///nonexistent.sock"}
    done = subprocess.run(
        [sys.executable, "-m", "stoker.host.cli", "train", "src/train.py", "--channel=train=data"],
        cwd=project,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "engine: process (no container: no Docker" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nope.py"], "nope.py is no file in"),
        (["src/train.py", "--channel", "train"], "is no NAME=VALUE"),
        (["src/train.py", "--channel", "train=nowhere"], "is no folder"),
        (["src/train.py", "--channel", "../x=data"], "is no channel name"),
        (["src/train.py", "--name", "a b"], "is no name for a job"),
        (["src/train.py", "--param", "lr"], "--param lr is no NAME=VALUE"),
    ],
)
def test_mistakes_end_with_2_and_a_fix(project, arguments, words):
    done = stoker(project, *arguments, "--engine", "process")
    assert done.returncode == 2
    assert words in done.stderr
    assert "fix: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_name_is_used_once(project):
    for code in (0, 2):
        done = stoker(
            project, "src/train.py", "--channel=train=data", "--engine=process", "--name=once"
        )
        assert done.returncode == code, done.stderr
    assert "there is a job once already" in done.stderr


@pytest.mark.docker
def test_an_image_that_is_not_there_is_named(project):
    done = stoker(project, "src/train.py", "--image", "no-such-image:ever")
    assert done.returncode == 3
    assert "Docker has no image no-such-image:ever" in done.stderr

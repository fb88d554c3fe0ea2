"""`--on sagemaker` with the local platform as the service: the request is the same as locally."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.cli.client.source import read_source
from stoker.cli.cloud.secret_files import require_no_secrets
from stoker.machine.failures import UsageRefused

from .conftest import DEADLINE_SECONDS, wait_for_line

pytestmark = pytest.mark.functional
TRAIN = ("train", "src/train.py", "--channel", "train=data", "--param", "lr=0.1")
CLOUD = (*TRAIN, "--on", "sagemaker")
LONG = ("train", "src/waits.py", "--on", "sagemaker")
# `stoker local env` names files with the platform's credentials, too.
NO_CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "",
    "AWS_SECRET_ACCESS_KEY": "",
    "AWS_SHARED_CREDENTIALS_FILE": "/none",
    "AWS_CONFIG_FILE": "/none",
}


def run(cloud, *arguments, **environ):
    return cloud.run(*arguments, **{**cloud.environ, **environ})


def describe(cloud, name, *options):
    done = run(cloud, "status", name, "--json", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_job_ends_as_on_this_machine(cloud):
    there = run(cloud, *CLOUD, "--name", "there")
    assert there.returncode == 0, there.stdout + there.stderr
    assert "1 files sent" in there.stdout
    assert "coal ['--lr', '0.1']" in there.stdout
    assert re.search(r"cost +\$[\d.]+: \d+ s billed \(1 × ml.m5.xlarge at", there.stdout)
    here = run(cloud, *TRAIN, "--name", "here", "--root", str(cloud.platform))
    assert here.returncode == 0, here.stderr
    # Without --on: it was sent from here.
    one, other = describe(cloud, "there"), describe(cloud, "here", "--on", "sagemaker")
    for key in ("HyperParameters", "StoppingCondition", "AlgorithmSpecification", "RoleArn"):
        assert one[key] == other[key]
    assert one["FinalMetricDataList"][0]["Value"] == other["FinalMetricDataList"][0]["Value"]
    assert "KeepAlivePeriodInSeconds" not in one["ResourceConfig"]  # there it would be billed


def test_what_a_job_left_is_found_by_its_name(cloud):
    assert run(cloud, *CLOUD, "--name", "left").returncode == 0
    imported = run(cloud, "runs", "import", "left", "--root", str(cloud.folder / "other"))
    assert imported.returncode == 0, imported.stderr
    assert "left-aws-training-job" in imported.stdout
    shown = run(cloud, "tensorboard", "left", "--dry-run")
    assert "s3://sagemaker-us-east-1-000000000000/left/tensorboard-output" in shown.stdout


def test_the_cost_is_estimated_from_the_last_job_and_from_steps_of_a_job_here(cloud):
    (cloud.folder / "src/steps.py").write_text(
        "import time\nfor step in range(0, 31, 10):\n"
        "    print(f'[metric] step={step} loss=1.0', flush=True)\n    time.sleep(1)\n"
    )
    home = cloud.folder / "home"
    (home / ".stoker").mkdir(exist_ok=True)
    (home / ".stoker/local").symlink_to(cloud.platform)
    other = cloud.folder / "elsewhere"
    other.mkdir()
    (other / "steps.py").write_text("pass")
    script = ("train", "src/steps.py", "--on", "sagemaker", "--param", "a=1")
    asked = ("--steps", "100000", "--dry-run")
    nothing = run(cloud, *script, *asked)
    assert "no job of steps.py on this machine has logged steps" in nothing.stderr
    assert "likely" not in nothing.stderr
    assert run(cloud, *script, "--name", "estimated").returncode == 0
    found = run(cloud, *script, *asked)
    cost, step = re.search(
        r"\$([\d.]+) for 100000 steps of ([\d.]+) s, as estimated took", found.stderr
    ).groups()
    assert 0.05 < float(step) < 1
    assert float(cost) == pytest.approx(100_000 * float(step) * 0.23 / 3600, rel=0.1)
    assert re.search(r"likely about \$[\d.]+: estimated was billed \d+ s\n", found.stderr)
    assert ", with other hyperparameters" in run(cloud, *script[:-1], "a=2", "--dry-run").stderr
    # Another project's script of the same name says nothing about this one.
    elsewhere = run(cloud, "train", "elsewhere/steps.py", "--on", "sagemaker", "--dry-run")
    assert "likely" not in elsewhere.stderr


def test_verbs_find_a_job_that_was_sent_from_here(cloud):
    sent = run(cloud, *CLOUD, "--name", "verbs", "--detach")
    assert sent.returncode == 0, sent.stderr
    assert "already there" in sent.stdout or "1 files sent" in sent.stdout
    attached = run(cloud, "attach", "verbs")
    assert attached.returncode == 0
    assert "coal" in attached.stdout
    assert "coal" in run(cloud, "logs", "verbs").stdout
    arn = describe(cloud, "verbs")["TrainingJobArn"]
    assert "Completed" in run(cloud, "status", arn).stdout
    assert "verbs" in run(cloud, "status", "--on", "sagemaker").stdout
    ended = run(cloud, "stop", "verbs")
    assert ended.returncode == 2
    assert "it is Completed" in ended.stderr


def test_a_failed_job_and_a_missing_one_are_told_apart(cloud):
    failed = run(cloud, *CLOUD, "--name", "fails", "--param", "CODE=3")
    assert failed.returncode == 1
    assert "train: failed" in failed.stdout
    missing = run(cloud, "logs", "nobodys", "--on", "sagemaker")
    assert missing.returncode == 2
    assert "does not have nobodys: " in missing.stderr
    unseen = run(cloud, "attach", "nobodys", "--on", "sagemaker")
    assert unseen.returncode == 2
    assert "continues" not in unseen.stdout


def test_the_same_job_twice_is_one_job_and_an_interrupt_leaves_it_running(cloud):
    command = (*LONG, "--name", "twice")
    first = cloud.start(*command, **cloud.environ)
    seen = wait_for_line(first, "ready")
    assert "so far" not in seen  # the status line is for terminals
    same = run(cloud, *command, "--detach")
    assert same.returncode == 0, same.stderr
    assert "was submitted before and runs" in same.stdout
    other = run(cloud, *command, "--param", "epochs=9", "--detach")
    assert other.returncode == 2
    assert "--name" in other.stderr
    first.send_signal(signal.SIGINT)
    out, _ = first.communicate(timeout=DEADLINE_SECONDS)
    assert first.returncode == 130
    assert "twice continues on SageMaker" in out
    assert "InProgress" in run(cloud, "status", "twice").stdout
    stopped = run(cloud, "stop", "twice", "--follow")
    assert "twice is Stopped" in stopped.stdout


@pytest.mark.parametrize(("answer", "status"), [("s", "Stopped"), ("d", "InProgress")])
def test_ctrl_c_at_a_terminal_asks_what_is_meant(cloud, answer, status):
    name = f"asked-{answer}"
    primary, secondary = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "stoker.cli.main", *LONG, "--name", name],
        cwd=cloud.folder,
        env={**os.environ, **cloud.environ},
        stdin=secondary,
        stdout=secondary,
        stderr=secondary,
    )
    os.close(secondary)
    read_until(primary, b"ready")
    process.send_signal(signal.SIGINT)
    read_until(primary, b"[c]ontinue?")
    os.write(primary, answer.encode() + b"\n")
    read_until(primary, b"stop    stoker" if answer == "d" else b"train: stopped")
    assert process.wait(DEADLINE_SECONDS) == 130
    os.close(primary)
    assert status in run(cloud, "status", name).stdout
    if answer == "d":
        run(cloud, "stop", name)


def read_until(descriptor, wanted):
    seen = b""
    while wanted not in seen:
        readable, _, _ = select.select([descriptor], [], [], DEADLINE_SECONDS)
        assert readable, seen.decode()
        seen += os.read(descriptor, 65536)


def test_a_dry_run_asks_nobody(cloud, tmp_path):
    offline = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_DEFAULT_REGION": "us-east-1"}
    config = tmp_path / "config.yaml"
    role = "arn:aws:iam::111122223333:role/Train"
    config.write_text(
        f"SageMaker:\n  TrainingJob:\n    RoleArn: {role}\n"
        "    VpcConfig: {Subnets: [subnet-1], SecurityGroupIds: [sg-1]}\n"
    )
    options = ("--use-spot", "--instance-type", "ml.g5.xlarge", "--instances", "32", "--dry-run")
    done = cloud.run(
        *(*CLOUD, *options), **offline, SAGEMAKER_USER_CONFIG_OVERRIDE=str(config), HOME="/none"
    )
    assert done.returncode == 0, done.stderr
    request = json.loads(done.stdout)  # as it is for the AWS CLI
    assert request["RoleArn"] == role
    assert request["VpcConfig"]["Subnets"] == ["subnet-1"]
    assert request["EnableManagedSpotTraining"]
    assert "s3://sagemaker-us-east-1-111122223333" in request["OutputDataConfig"]["S3OutputPath"]
    assert "send channel train, 1 files" in done.stderr
    assert "cost: at most $1,081.34, less with spot: 32 × ml.g5.xlarge for 24 h" in done.stderr


@pytest.mark.parametrize(
    ("options", "environ", "text"),
    [
        (("--spot", "after=3s"), {}, "--use-spot asks SageMaker"),
        (("--subnet", "s"), {}, "needs both, --subnet and --security-group"),
        (("--instance-group", "x"), {}, "NAME=TYPE:COUNT"),
        (
            ("--instance-group", "a=ml.m5.large:1", "--instances", "2"),
            {},
            "and numbers of its own",
        ),
        (("--prefer", "ml.m5.large", "--instance-type", "ml.c5.large"), {}, "is given, too"),
        (("--tag", "aws:team=a"), {}, "AWS's own"),
        (("--steps", "0"), {}, "at least 1"),
        ((), {"AWS_PROFILE": "nobodys"}, "list-profiles"),
        ((), {"AWS_CONFIG_FILE": "src/train.py"}, "a setting for AWS is not valid"),
        ((), {"AWS_ENDPOINT_URL": "nonsense"}, "Invalid endpoint: nonsense"),
        ((), NO_CREDENTIALS, "no credentials"),
        ((), {"AWS_SECRET_ACCESS_KEY": "wrong"}, "does not know these credentials"),
        (("--output", "s3://nobodys-bucket-1"), {}, "no such bucket: nobodys-bucket-1"),
    ],
)
def test_what_cannot_work_is_refused_before_a_job_is_there(cloud, options, environ, text):
    done = run(cloud, *CLOUD, "--name", "refused", *options, **environ)
    assert done.returncode in (2, 3)
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert run(cloud, "status", "refused", "--on", "sagemaker").returncode == 2


def test_an_option_of_the_cloud_needs_the_cloud(cloud):
    done = run(cloud, *TRAIN, "--use-spot", "--root", str(cloud.platform))
    assert done.returncode == 2
    assert "add --on sagemaker" in done.stderr


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (".env", "A=1"),
        ("deep/id_rsa", "x"),
        ("config.py", "KEY = 'AKIA" + "Q" * 16 + "'"),
        ("note.txt", "-----BEGIN RSA PRIVATE KEY-----"),
        ("hub.py", "login(token='hf_" + "aB" * 17 + "')"),
        ("clone.sh", "git clone https://ghp_" + "aB1" * 12 + "@github.com/a/b"),
    ],
)
def test_files_that_look_like_secrets_are_refused(tmp_path, name, content):
    (tmp_path / "train.py").write_text("print(1)")
    (tmp_path / ".env.example").write_text("A=")
    require_no_secrets(read_source(tmp_path, "train.py"))
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(content)
    with pytest.raises(UsageRefused, match=re.escape(Path(name).name)):
        require_no_secrets(read_source(tmp_path, "train.py"))

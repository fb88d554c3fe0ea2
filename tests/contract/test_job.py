"""One frozen Job from files and environment."""

from __future__ import annotations

import subprocess
import sys

import pytest

import stoker
from stoker.contract.job import read_job
from stoker.errors import ChannelMissing, ConfigInvalid, ParamsInvalid


def read(opt_ml, **environ):
    return read_job(root=opt_ml.root, environ=environ)


def test_a_job_reads_its_names_from_the_platform(opt_ml):
    opt_ml.hyperparameters(sagemaker_region='"us-east-1"')
    job = read(opt_ml, TRAINING_JOB_NAME="j", TRAINING_JOB_ARN="arn:x", AWS_REGION="eu-west-1")
    assert (job.name, job.arn, job.region) == ("j", "arn:x", "eu-west-1")
    assert read(opt_ml).region == "us-east-1"


def test_a_laptop_has_a_job_too(tmp_path):
    body = "import stoker; job = stoker.job(); print(job.paths.root, job.params(lr=0.5).lr)"
    ended = subprocess.run(
        [sys.executable, "-c", body],
        cwd=tmp_path,
        env={"STOKER_ROOT": str(tmp_path / "elsewhere")},
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    assert ended.stdout == f"{tmp_path}/elsewhere 0.5\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("hyperparameter", "variable", "level"),
    [
        (None, None, 20),
        ("10", None, 10),
        ('"10"', None, 10),
        ('"DEBUG"', None, 10),
        ("warning", None, 30),
        ("10", "40", 40),
        ("10", "critical", 50),
        ("nonsense", None, 20),
        (None, "", 20),
        ("9" * 5000, None, 20),
    ],
)
def test_the_log_level_is_a_number_or_a_name(opt_ml, hyperparameter, variable, level):
    if hyperparameter is not None:
        opt_ml.hyperparameters(sagemaker_container_log_level=hyperparameter)
    environ = {} if variable is None else {"SAGEMAKER_CONTAINER_LOG_LEVEL": variable}
    assert read(opt_ml, **environ).log_level == level


def test_a_broken_main_file_stops_the_job(opt_ml):
    opt_ml.config("resourceconfig", "{")
    with pytest.raises(ConfigInvalid, match=r"resourceconfig\.json"):
        read(opt_ml)


def test_a_broken_optional_file_does_not(opt_ml):
    opt_ml.config("debughookconfig", "{")
    assert len(read(opt_ml).services.complaints) == 1


def test_a_script_asks_a_job_for_channels_and_params(opt_ml):
    opt_ml.hyperparameters(lr="1e-4", version="1.10", sagemaker_program="train.py")
    opt_ml.config("inputdataconfig", {"train": {}})
    job = read(opt_ml)
    assert job.channel("train") == opt_ml.root / "input/data/train"
    assert job.params(lr=0.1, version="").version == "1.10"
    with pytest.raises(ChannelMissing):
        job.channel("test")
    with pytest.raises(ParamsInvalid, match=r"lr is not .*did you mean lrs\?"):
        job.params(lrs=0.1, version="")


def test_without_a_distribution_the_first_host_leads(opt_ml):
    opt_ml.config("resourceconfig", {"current_host": "b", "hosts": ["a", "b"]})
    job = read(opt_ml)
    assert job.distribution_groups == ()
    assert (job.leader, job.is_leader) == ("a", False)


def test_the_public_name_reads_the_same_job(opt_ml):
    job = stoker.job(root=opt_ml.root, environ={})
    assert isinstance(job, stoker.Job)
    assert vars(job) == vars(read(opt_ml))

"""A user who builds an image and pushes it to ECR, in a shell with `stoker local env`."""

from __future__ import annotations

import os
import subprocess
import uuid
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from stoker.cli.client.variables import make_variables
from stoker.machine.docker import find_client
from stoker.platform.model.root import read_credentials, read_server_info
from tests.platform.local_server import ROLE, LocalServer
from tests.sdks import IMAGE, clean_environ, sdk_python

HERE = Path(__file__).parent
_DEADLINE_SECONDS = 400


@pytest.fixture
def name():
    name = f"tests/own-image-{uuid.uuid4().hex[:8]}"
    yield name
    listed = subprocess.run(
        [find_client(), "image", "ls", "--format", "{{.Repository}}:{{.Tag}}"],
        **{"capture_output": True, "text": True, "check": True},
    ).stdout.split()
    mine = [each for each in listed if f"{name}:" in each]
    subprocess.run([find_client(), "image", "rm", *mine], check=bool(mine), capture_output=True)


def shell_environ(server: LocalServer) -> dict[str, str]:
    environ = clean_environ()
    environ["PATH"] = f"{sdk_python('cli').parent}{os.pathsep}{environ['PATH']}"
    info = read_server_info(server.root)
    return environ | make_variables(server.root, info, read_credentials(server.root), environ)


@pytest.mark.docker
@pytest.mark.timeout(600)
def test_an_image_that_was_built_and_pushed_runs_as_a_job(tmp_path, name):
    (tmp_path / "train.py").write_text("open('/opt/ml/model/note', 'w').write('own')")
    (tmp_path / "Dockerfile").write_text(
        f"FROM {IMAGE}\nCOPY train.py /opt/ml/code/train.py\nENV SAGEMAKER_PROGRAM=train.py\n"
    )
    server = LocalServer(tmp_path / "root", engine="docker").start()
    try:
        done = subprocess.run(
            ["sh", HERE / "build_and_push.sh", name],
            cwd=tmp_path,
            env=shell_environ(server),
            capture_output=True,
            text=True,
            timeout=_DEADLINE_SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "aws ecr create-repository" in done.stderr, "the first push says what is missing"
        *_, tags, server.image = done.stdout.split()
        assert tags == "latest"
        details = server.boto("ecr").describe_images(
            repositoryName=name, imageIds=[{"imageTag": "latest"}]
        )["imageDetails"]
        server.boto("sagemaker").create_training_job(
            TrainingJobName="own",
            RoleArn=ROLE,
            AlgorithmSpecification={"TrainingImage": server.image, "TrainingInputMode": "File"},
            OutputDataConfig={"S3OutputPath": "s3://sagemaker-us-east-1-000000000000/out"},
            ResourceConfig={
                **{"InstanceType": "ml.m5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}
            },
            StoppingCondition={"MaxRuntimeInSeconds": 600},
        )
        job = server.wait("own")
        assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
        assert details[0]["imageDigest"].startswith("sha256:")
        assert server.leftovers() == []
    finally:
        server.end()


def test_repositories_are_refused_in_the_words_of_ecr(tmp_path):
    server = LocalServer(tmp_path / "root").start()
    try:
        ecr = server.boto("ecr")
        made = ecr.create_repository(repositoryName="team/model")["repository"]
        assert made["repositoryUri"] == "000000000000.dkr.ecr.us-east-1.amazonaws.com/team/model"
        assert ecr.describe_repositories()["repositories"] == [made]
        assert ecr.list_images(repositoryName="team/model")["imageIds"] == []
        with pytest.raises(ecr.exceptions.RepositoryAlreadyExistsException):
            ecr.create_repository(repositoryName="team/model")
        with pytest.raises(ecr.exceptions.RepositoryNotFoundException, match="team/other"):
            ecr.describe_repositories(repositoryNames=["team/model", "team/other"])
        with pytest.raises(ecr.exceptions.ImageNotFoundException):
            ecr.describe_images(repositoryName="team/model", imageIds=[{"imageTag": "1"}])
        with pytest.raises(ClientError, match="pattern"):
            ecr.create_repository(repositoryName="../team")
        ecr.delete_repository(repositoryName="team/model")
        assert ecr.describe_repositories()["repositories"] == []
    finally:
        server.end()

"""The AWS side of the user's machine: sessions and ECR. boto3 is imported when it is needed."""

from __future__ import annotations

import base64
import importlib
from typing import Any

from stoker.machine.failures import PushFailed, UsageRefused


def read_registry(region: str | None) -> tuple[str, str]:
    """The address of the account's ECR registry and its region.

    Raises:
        UsageRefused: no region is configured.
        PushFailed: the credentials are missing or refused.
    """
    session = make_session(region)
    if not session.region_name:
        raise UsageRefused(
            "no AWS region is configured", fix="pass --region, or set AWS_DEFAULT_REGION"
        )
    try:
        account = session.client("sts").get_caller_identity()["Account"]
    except aws_errors() as error:
        raise PushFailed(f"AWS does not say who we are: {error}", fix="aws configure") from error
    return registry_address(account, session.region_name), session.region_name


def registry_address(account: str, region: str) -> str:
    """The address of an account's registry in ECR."""
    # AWS in China has a domain of its own.
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"{account}.dkr.ecr.{region}.{domain}"


def tag_exists(repository: str, tag: str, *, region: str) -> bool:
    """Whether the ECR repository holds the tag.

    Raises:
        PushFailed: there is no such repository, or AWS refuses.
    """
    ecr = make_session(region).client("ecr")
    try:
        ecr.describe_images(repositoryName=repository, imageIds=[{"imageTag": tag}])
    except ecr.exceptions.ImageNotFoundException:
        return False
    except ecr.exceptions.RepositoryNotFoundException as error:
        raise PushFailed(
            f"ECR has no repository '{repository}' in {region}",
            fix=f"aws ecr create-repository --repository-name {repository} --region {region}"
            " --image-tag-mutability IMMUTABLE",
        ) from error
    except aws_errors() as error:
        raise PushFailed(f"ECR refused: {error}", fix="check the permissions for ECR") from error
    return True


def read_login_password(region: str) -> str:
    """A password for `docker login` as the user AWS; it is valid for twelve hours.

    Raises:
        PushFailed: AWS refuses.
    """
    try:
        answer = make_session(region).client("ecr").get_authorization_token()
    except aws_errors() as error:
        raise PushFailed(f"ECR gave no token: {error}", fix="check the permissions") from error
    token = base64.b64decode(answer["authorizationData"][0]["authorizationToken"]).decode()
    # The token is base64 of `AWS:password`.
    return token.partition(":")[2]


def make_session(region: str | None = None) -> Any:  # noqa: ANN401 - boto3 publishes no types
    """A boto3 session.

    Raises:
        UsageRefused: boto3 is not installed.
    """
    return import_module("boto3").Session(region_name=region)


def aws_errors() -> tuple[type[Exception], ...]:
    """What boto3 raises when AWS refuses or cannot be reached."""
    exceptions = import_module("botocore.exceptions")
    return (exceptions.BotoCoreError, exceptions.ClientError)


def import_module(name: str) -> Any:  # noqa: ANN401 - as above
    """A module of boto3 or botocore.

    Raises:
        UsageRefused: boto3 is not installed: it is an extra, every other command works without it.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UsageRefused("boto3 is not installed", fix="pip install 'stoker[host]'") from error

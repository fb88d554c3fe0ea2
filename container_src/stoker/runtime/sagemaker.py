"""The AWS calls of the container, each made in a short-lived helper process."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

import boto3
from boto3.exceptions import Boto3Error
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from stoker.errors import ConfigInvalid, PreparationFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

_AWS_ERRORS = (BotoCoreError, ClientError, Boto3Error, ValueError)
# A dead endpoint must not hold a paid machine: seconds where nothing answers, a few minutes where
# something answers and then stays silent.
_CONFIG = Config(connect_timeout=10, read_timeout=60, retries={"max_attempts": 3})


def download(uri: str, target: Path) -> None:
    """Copies an object, or all objects below a prefix, to `target`.

    Raises:
        PreparationFailed: nothing is there, access is denied, or S3 cannot be reached.
    """
    parts = urlsplit(uri, allow_fragments=False)
    bucket, key = parts.netloc, parts.path.lstrip("/")
    try:
        s3 = boto3.client("s3", config=_CONFIG)
        if not _download_object(s3, bucket, key, target):
            _download_prefix(s3, bucket, key, target)
    except _AWS_ERRORS as error:
        raise PreparationFailed(
            f"{uri} could not be downloaded: {error}",
            fix="check that the object exists, that the job's role may read it and that the "
            "network allows S3; under network isolation SDK v2 sends code as a channel instead",
        ) from None


def codeartifact_index(repository_arn: str) -> str:
    """The index address of a CodeArtifact repository, with a token in it: never log it.

    Raises:
        ConfigInvalid: not the ARN of a repository.
        PreparationFailed: no token could be had.
    """
    try:
        _, _, _, region, account, resource = repository_arn.split(":", 5)
        _, domain, repository = resource.split("/")
    except ValueError:
        raise ConfigInvalid(
            f"CA_REPOSITORY_ARN is {repository_arn!r:.120}, but the ARN of a CodeArtifact "
            "repository was expected",
            fix="arn:aws:codeartifact:REGION:ACCOUNT:repository/DOMAIN/REPOSITORY",
        ) from None
    try:
        client = boto3.client("codeartifact", region_name=region, config=_CONFIG)
        token = client.get_authorization_token(domain=domain, domainOwner=account)
        endpoint = client.get_repository_endpoint(
            domain=domain, domainOwner=account, repository=repository, format="pypi"
        )
    except _AWS_ERRORS as error:
        raise PreparationFailed(
            f"no CodeArtifact token for {repository_arn}: {error}",
            fix="the job's role needs codeartifact:GetAuthorizationToken, "
            "codeartifact:GetRepositoryEndpoint and sts:GetServiceBearerToken",
        ) from None
    parts = urlsplit(endpoint["repositoryEndpoint"])
    secret = quote(token["authorizationToken"], safe="")
    return f"{parts.scheme}://aws:{secret}@{parts.netloc}{parts.path.rstrip('/')}/simple/"


def _download_object(s3: boto3.client, bucket: str, key: str, target: Path) -> bool:
    if not key or key.endswith("/"):
        return False
    try:
        s3.head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if error.response["Error"]["Code"] in ("404", "NoSuchKey", "NotFound"):
            return False
        raise
    s3.download_file(bucket, key, str(target))
    return True


def _download_prefix(s3: boto3.client, bucket: str, key: str, target: Path) -> None:
    # With the slash added, `src` does not match its sibling `src-old/`.
    prefix = key.rstrip("/") + "/" if key else ""
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    keys = [item["Key"] for page in pages for item in page.get("Contents", [])]
    names = [name for name in (key.removeprefix(prefix) for key in keys) if name]
    if not names:
        raise PreparationFailed(
            f"s3://{bucket}/{key} does not exist", fix="check source_dir= and the upload"
        )
    for name in names:
        if name.endswith("/"):
            continue
        if ".." in name.split("/"):
            raise PreparationFailed(f"s3://{bucket}/{prefix}{name} leaves its folder")
        file = target / name
        file.parent.mkdir(parents=True, exist_ok=True)
        s3.download_file(bucket, prefix + name, str(file))

"""The launcher's call to AWS, made in a short-lived helper process."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

import boto3

from stoker.errors import ConfigInvalid, PreparationFailed
from stoker.storage.aws import AWS_ERRORS, CONFIG


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
        client = boto3.client("codeartifact", region_name=region, config=CONFIG)
        token = client.get_authorization_token(domain=domain, domainOwner=account)
        endpoint = client.get_repository_endpoint(
            domain=domain, domainOwner=account, repository=repository, format="pypi"
        )
    except AWS_ERRORS as error:
        raise PreparationFailed(
            f"no CodeArtifact token for {repository_arn}: {error}",
            fix="the job's role needs codeartifact:GetAuthorizationToken, "
            "codeartifact:GetRepositoryEndpoint and sts:GetServiceBearerToken",
        ) from None
    parts = urlsplit(endpoint["repositoryEndpoint"])
    secret = quote(token["authorizationToken"], safe="")
    return f"{parts.scheme}://aws:{secret}@{parts.netloc}{parts.path.rstrip('/')}/simple/"

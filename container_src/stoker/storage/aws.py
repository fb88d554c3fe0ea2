"""The container's calls to AWS: how long they may take, how they fail, downloads from S3."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import boto3
from boto3.exceptions import Boto3Error
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from stoker.errors import PreparationFailed
from stoker.storage import s3

AWS_ERRORS = (BotoCoreError, ClientError, Boto3Error, ValueError)
"""What boto3 raises when AWS refuses or cannot be reached, or an argument is not usable."""
# A dead endpoint must not hold a paid machine: seconds where nothing answers, a few minutes where
# something answers and then stays silent.
CONFIG = Config(connect_timeout=10, read_timeout=60, retries={"max_attempts": 3})


def download(uri: str, folder: Path, *, fix: str) -> Path:
    """Copies an object, or everything below a prefix, into a folder.

    Args:
        uri: s3://BUCKET/KEY.
        folder: it is made if it does not exist.
        fix: what to do if it fails.

    Returns:
        The file, or the folder.

    Raises:
        PreparationFailed: nothing is there, access is denied, or S3 cannot be reached.
    """
    try:
        # A session of its own, for the credentials of this very moment.
        client = boto3.Session().client("s3", config=CONFIG)
        return s3.download(client, uri, folder, fix=fix)
    except (*AWS_ERRORS, OSError) as error:
        raise PreparationFailed(f"{uri} could not be downloaded: {error}", fix=fix) from None


def sign(
    method: str, url: str, content: bytes, headers: Mapping[str, str], *, service: str, region: str
) -> dict[str, str]:
    """The headers of a request with those that sign it.

    Raises:
        OSError: this machine has no credentials.
    """
    credentials = boto3.Session().get_credentials()
    if credentials is None:
        raise OSError("there are no AWS credentials to sign with")
    # SigV4Auth takes the hash of the body from this header, and signs the header as well.
    digest = hashlib.sha256(content).hexdigest()
    request = AWSRequest(
        method=method, url=url, data=content, headers={**headers, "X-Amz-Content-SHA256": digest}
    )
    SigV4Auth(credentials, service, region).add_auth(request)
    return dict(request.headers.items())

"""Fetching what rules name on S3: a custom rule's file, the tensors of another run."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from stoker.errors import PreparationFailed

_CONFIG = Config(connect_timeout=10, read_timeout=60, retries={"mode": "standard"})
_FIX = "look at the address; the job's role needs s3:GetObject and s3:ListBucket for it"


def download(uri: str, folder: Path) -> Path:
    """Brings one object, or everything below a prefix, into a folder.

    Returns:
        The file, or the folder.

    Raises:
        PreparationFailed: there is nothing, or no permission.
    """
    parts = urlsplit(uri)
    bucket, key = parts.netloc, parts.path.lstrip("/")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        s3 = boto3.Session().client("s3", config=_CONFIG)  # with the keys of this very moment
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=key)
        keys = [item["Key"] for page in pages for item in page.get("Contents", [])]
        if key in keys:
            file = folder / Path(key).name
            s3.download_file(bucket, key, str(file))
            return file
        _download_below(s3, bucket, key.rstrip("/") + "/", keys, folder)
    except (BotoCoreError, ClientError, OSError) as error:
        raise PreparationFailed(f"{uri} cannot be fetched: {error}", fix=_FIX) from None
    return folder


def _download_below(
    s3: boto3.client, bucket: str, prefix: str, keys: list[str], folder: Path
) -> None:
    # The listing of `run` also has those of its sibling `run-2/`.
    names = [key.removeprefix(prefix) for key in keys if key.startswith(prefix)]
    names = [name for name in names if name and not name.endswith("/")]
    if not names:
        raise PreparationFailed(f"s3://{bucket}/{prefix} does not exist", fix=_FIX)
    for name in names:
        if ".." in name.split("/"):
            raise PreparationFailed(f"s3://{bucket}/{prefix}{name} leaves its folder", fix=_FIX)
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        s3.download_file(bucket, prefix + name, str(file))

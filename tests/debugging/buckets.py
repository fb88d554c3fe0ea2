"""A real S3 server on this machine; its buckets are folders."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stoker.platform.model.root import Root, read_credentials
from stoker.platform.s3.process import S3Server


@contextmanager
def serve_buckets(root: Root) -> Iterator[dict[str, str]]:
    """The variables that lead boto3 to what lies in `root.s3_dir`."""
    server = S3Server.start(root)
    keys = read_credentials(root)
    try:
        yield {
            "AWS_ENDPOINT_URL": f"http://{server.address}",
            "AWS_ACCESS_KEY_ID": keys.access_key,
            "AWS_SECRET_ACCESS_KEY": keys.secret_key,
            "AWS_REGION": "us-east-1",  # smdebug's
            "AWS_DEFAULT_REGION": "us-east-1",
        }
    finally:
        server.stop()

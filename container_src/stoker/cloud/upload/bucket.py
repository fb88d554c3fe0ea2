"""Objects of one bucket: asked for, listed, copied and sent.

Small files are sent by signed requests of our own: their content hash is known already, so it is
the signature's payload hash, which S3 compares with what it receives. boto3 would compute two more
checksums of each file. Large files are sent in parts by boto3.
"""

from __future__ import annotations

import hashlib
import http.client
import random
import re
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit

from stoker.cloud.account import Account
from stoker.cloud.refusals import ConnectionLost, Refusal, explain
from stoker.cloud.upload.folder import FolderFile, make_stamp
from stoker.errors import HostError
from stoker.machine.aws import aws_errors
from stoker.machine.aws_settings import find_plain_keys
from stoker.machine.environment import read_environment
from stoker.machine.failures import StorageFailed
from stoker.machine.signature import PAYLOAD_HASH, Keys, sign

THREADS = 8
_LARGE_BYTES = 64 * 1024 * 1024  # from here on in parts, four at a time
_TRIES = 6
_LONGEST_PAUSE_SECONDS = 20.0
_QUICK_SECONDS = 10.0
_NOTHING = hashlib.sha256(b"").hexdigest()


class Bucket:
    """One bucket of an account; safe in threads."""

    def __init__(self, account: Account, name: str, *, owner: str | None = None) -> None:
        """
        Args:
            account: who sends.
            name: of the bucket.
            owner: the number of the account that it must belong to; None: any.
        """
        self._account = account
        self.name = name
        self._owner = {"X-Amz-Expected-Bucket-Owner": owner} if owner else {}

    @cached_property
    def _client(self) -> Any:  # noqa: ANN401 - botocore publishes no types
        return self._account.client("s3")

    @cached_property
    def _http(self) -> Any:  # noqa: ANN401 - as above
        """Connections of small files; botocore's, which know proxies and certificates."""
        import botocore.httpsession
        from botocore.utils import get_environ_proxies

        bundle = self._account.session.get_config_variable("ca_bundle")
        return botocore.httpsession.URLLib3Session(
            verify=bundle or read_environment().get("REQUESTS_CA_BUNDLE") or True,
            max_pool_connections=THREADS,
            proxies=get_environ_proxies(self._base),
            # Else the body of each small file waits 40 ms for the receipt of its headers.
            socket_options=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
        )

    @cached_property
    def _base(self) -> str:
        """Of all addresses; whatever the settings say of endpoints and styles, boto3 knows it."""
        place = {"Bucket": self.name, "Key": "x"}
        url = urlsplit(self._client.generate_presigned_url("put_object", Params=place))
        return f"{url.scheme}://{url.netloc}{url.path}".rpartition("/x")[0]

    def has(self, key: str) -> bool:
        """Whether there is such an object."""
        if self.is_seen(key):
            return True
        found = self._account.call("s3", "ListObjectsV2", Bucket=self.name, Prefix=key, MaxKeys=1)
        return any(each["Key"] == key for each in found.get("Contents", ()))

    def is_seen(self, key: str) -> bool:
        """Whether there is such an object, asked without botocore, which takes long to load.

        False may mean anything, also that these settings need botocore.
        """
        environ = read_environment()
        keys = find_plain_keys(environ)
        if keys is None:
            return False
        url = urlsplit(f"{_guess_address(self.name, self._account.region, environ)}/{_quote(key)}")
        headers = self._sign("HEAD", url.netloc, url.path, _NOTHING, keys)
        with (
            suppress(OSError, http.client.HTTPException, ValueError),
            closing(_make_connection(url, environ)) as connection,
        ):
            connection.request("HEAD", url.path, headers=headers)
            return connection.getresponse().status == HTTPStatus.OK
        return False

    def sizes(self, prefix: str) -> dict[str, int]:
        """Key → bytes of what is below a prefix."""
        pages = self._account.pages("s3", "ListObjectsV2", Bucket=self.name, Prefix=prefix)
        return {each["Key"]: each["Size"] for page in pages for each in page.get("Contents", ())}

    def copy(self, source: str, target: str) -> bool:
        """Copy an object within the bucket; False if it is not there any more."""
        place = {"Bucket": self.name, "Key": source}
        try:
            self._account.call("s3", "CopyObject", Bucket=self.name, Key=target, CopySource=place)
        except HostError:
            return False
        return True

    def put_text(self, key: str, text: str) -> None:
        """A small object."""
        self._account.call("s3", "PutObject", Bucket=self.name, Key=key, Body=text.encode())

    def put_file(self, key: str, file: Path, *, on_bytes: Callable[[int], object]) -> None:
        """A file of Stoker's own, in parts if it is large."""
        size_bytes = file.stat().st_size
        if size_bytes >= _LARGE_BYTES:
            self._upload_in_parts(key, file, on_bytes)
        else:
            content = file.read_bytes()
            self._account.call("s3", "PutObject", Bucket=self.name, Key=key, Body=content)
            on_bytes(size_bytes)

    def put(self, key: str, file: FolderFile, *, on_bytes: Callable[[int], object]) -> None:
        """A file of the user's folder.

        Raises:
            StorageFailed: it changed meanwhile, or AWS does not take it.
        """
        if file.size_bytes >= _LARGE_BYTES:
            self._upload_in_parts(key, file.path, on_bytes)
        else:
            self._send_signed(key, file)
            on_bytes(file.size_bytes)
        if make_stamp(file.path.stat()) != file.stamp:
            raise _changed(file)

    def _upload_in_parts(self, key: str, file: Path, on_bytes: Callable[[int], object]) -> None:
        import boto3.exceptions
        from boto3.s3.transfer import S3Transfer, TransferConfig

        config = TransferConfig(multipart_threshold=_LARGE_BYTES, max_concurrency=4)
        try:
            with S3Transfer(self._client, config) as transfer:
                transfer.upload_file(str(file), self.name, key, callback=on_bytes)
        except boto3.exceptions.S3UploadFailedError as error:
            code = re.search(r"\((\w+)\) when calling", str(error))
            raise explain(self._refusal(code[1] if code else "", str(error))) from error
        except aws_errors() as error:
            raise explain(self._refusal(type(error).__name__, str(error))) from error

    def _send_signed(self, key: str, file: FolderFile) -> None:
        content = file.path.read_bytes()
        if len(content) != file.size_bytes:
            raise _changed(file)
        for attempt in range(1, _TRIES + 1):
            try:
                status, body = self._send_once(key, content, file.sha256)
            except aws_errors() as error:
                refusal = self._refusal(type(error).__name__, str(error))
            else:
                if status == HTTPStatus.OK:
                    return
                refusal = self._refusal(*_read_error(status, body))
                if refusal.code in ("XAmzContentSHA256Mismatch", "BadDigest"):
                    raise _changed(file)
            problem = explain(refusal)
            if not isinstance(problem, ConnectionLost) or attempt == _TRIES:
                raise problem
            time.sleep(min(_LONGEST_PAUSE_SECONDS, 2**attempt / 4) * random.uniform(0.5, 1))  # noqa: S311 - not a secret

    def _send_once(self, key: str, content: bytes, sha256: str) -> tuple[int, bytes]:
        import botocore.awsrequest
        import botocore.exceptions

        credentials = self._account.session.get_credentials()
        if credentials is None:
            raise botocore.exceptions.NoCredentialsError
        frozen = credentials.get_frozen_credentials()
        keys = Keys(
            access_key=frozen.access_key, secret_key=frozen.secret_key, token=frozen.token or ""
        )
        url = urlsplit(f"{self._base}/{_quote(key)}")
        headers = self._sign("PUT", url.netloc, url.path, sha256, keys)
        request = botocore.awsrequest.AWSRequest("PUT", url.geturl(), headers, content)
        answer = self._http.send(request.prepare())
        return answer.status_code, answer.content

    def _sign(self, method: str, host: str, path: str, sha256: str, keys: Keys) -> dict[str, str]:
        region = self._account.region
        headers = {PAYLOAD_HASH: sha256, **self._owner}
        return sign(method, host, path, headers, keys=keys, service="s3", region=region)

    def _refusal(self, code: str, message: str) -> Refusal:
        return Refusal(
            service="s3",
            operation="PutObject",
            code=code,
            message=f"{self.name}: {message}",
            region=self._account.region,
        )


def _guess_address(bucket: str, region: str, environ: Mapping[str, str]) -> str:
    """Where the bucket most likely is, without the service's rules for endpoints."""
    endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        return f"{endpoint.rstrip('/')}/{bucket}"
    return f"https://{bucket}.s3.{region}.amazonaws.com"


def _make_connection(url: SplitResult, environ: Mapping[str, str]) -> http.client.HTTPConnection:
    if url.scheme == "http":
        return http.client.HTTPConnection(url.netloc, timeout=_QUICK_SECONDS)
    bundle = environ.get("AWS_CA_BUNDLE") or environ.get("REQUESTS_CA_BUNDLE")
    is_folder = bool(bundle) and Path(bundle or "").is_dir()
    context = ssl.create_default_context(
        cafile=None if is_folder else bundle, capath=bundle if is_folder else None
    )
    return http.client.HTTPSConnection(url.netloc, timeout=_QUICK_SECONDS, context=context)


def _quote(key: str) -> str:
    return quote(key, safe="/~")


def _read_error(status: int, body: bytes) -> tuple[str, str]:
    text = body.decode(errors="replace")
    code, message = (re.search(f"<{tag}>(.*?)</{tag}>", text, re.S) for tag in ("Code", "Message"))
    return (code[1] if code else str(status)), (message[1] if message else text[:300])


def _changed(file: FolderFile) -> StorageFailed:
    return StorageFailed(
        f"{file.path} changed while it was sent",
        fix="run the command again when no program writes to the folder",
    )

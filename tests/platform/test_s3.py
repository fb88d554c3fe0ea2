"""The embedded S3 server behind the platform's address, used by stock boto3."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest
from botocore.exceptions import ClientError

from stoker.platform.data.s3_server import S3Server
from stoker.platform.model.root import DEFAULT_BUCKET, open_root, read_credentials
from stoker.runtime.processes import descendants
from tests.platform.wire_server import DEADLINE_SECONDS, running_wire

START_AND_WAIT = """\
import sys, time
from pathlib import Path
from stoker.platform.model.root import open_root
from stoker.platform.data.s3_server import S3Server
server = S3Server.start(open_root(Path(sys.argv[1])))
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def root(tmp_path):
    return open_root(tmp_path / "root")


@pytest.fixture
def s3_server(root):
    server = S3Server.start(root)
    yield server
    server.stop()


@pytest.fixture
def wire(root, s3_server):
    with running_wire(s3_server.address, read_credentials(root)) as server:
        yield server


@pytest.fixture
def s3(wire):
    # The SDK's own retries are part of what a user has.
    return wire.boto("s3", retries={"mode": "standard"})


def code_of(call, **params):
    with pytest.raises(ClientError) as caught:
        call(**params)
    return caught.value.response["Error"]["Code"]


def wait_until(fact, what):
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not fact():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def is_gone(pid):
    """Ended, though perhaps nobody has asked yet how."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def read(s3, key, **params):
    with s3.get_object(Bucket=DEFAULT_BUCKET, Key=key, **params)["Body"] as body:
        return body.read()


def test_objects_are_files_that_come_back_whole(s3, root):
    for key in ("a/plain.txt", "a/b c+d%20e/größe~(1).txt", "a/empty"):
        content = b"" if "empty" in key else f"content of {key}".encode()
        s3.put_object(Bucket=DEFAULT_BUCKET, Key=key, Body=content)
        assert (root.s3_dir / DEFAULT_BUCKET / key).read_bytes() == content
        assert read(s3, key) == content
        assert s3.head_object(Bucket=DEFAULT_BUCKET, Key=key)["ContentLength"] == len(content)
    listed = s3.list_objects_v2(Bucket=DEFAULT_BUCKET, Prefix="a/")
    assert listed["KeyCount"] == 3
    (etag,) = [each["ETag"] for each in listed["Contents"] if each["Key"] == "a/empty"]
    assert etag == s3.head_object(Bucket=DEFAULT_BUCKET, Key="a/empty")["ETag"]
    s3.delete_object(Bucket=DEFAULT_BUCKET, Key="a/empty")
    assert code_of(s3.head_object, Bucket=DEFAULT_BUCKET, Key="a/empty") == "404"


def test_a_large_file_goes_up_in_parts_and_comes_down_in_ranges(s3, tmp_path):
    """With boto3's own defaults: 8 MB parts, checksums in trailers, several connections."""
    content = os.urandom(1024 * 1024) * 20
    (tmp_path / "up").write_bytes(content)
    s3.upload_file(str(tmp_path / "up"), DEFAULT_BUCKET, "large")
    s3.download_file(DEFAULT_BUCKET, "large", str(tmp_path / "down"))
    downloaded = hashlib.sha256((tmp_path / "down").read_bytes())
    assert downloaded.digest() == hashlib.sha256(content).digest()


def test_a_range_is_a_part_without_the_checksum_of_the_whole(s3):
    s3.put_object(Bucket=DEFAULT_BUCKET, Key="k", Body=b"0123456789")
    answer = s3.get_object(Bucket=DEFAULT_BUCKET, Key="k", Range="bytes=2-4")
    with answer["Body"] as body:
        assert body.read() == b"234"
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert answer["ContentRange"] == "bytes 2-4/10"
    assert not [name for name in answer if name.startswith("Checksum")]
    assert read(s3, "k", Range="bytes=-3") == b"789"
    past = {"Bucket": DEFAULT_BUCKET, "Key": "k", "Range": "bytes=50-60"}
    assert code_of(s3.get_object, **past) == "InvalidRange"


def test_copies_pages_folders_metadata_and_deletes_work_as_with_aws(s3):
    bucket = {"Bucket": DEFAULT_BUCKET}
    for n in range(5):
        s3.put_object(**bucket, Key=f"d{n}/k", Body=b"x", Metadata={"step-number": "7"})
    s3.copy_object(**bucket, Key="copy ü", CopySource={**bucket, "Key": "d0/k"})
    assert s3.head_object(**bucket, Key="d1/k")["Metadata"] == {"step-number": "7"}
    pages = s3.get_paginator("list_objects_v2").paginate(
        **bucket, PaginationConfig={"PageSize": 2}
    )
    keys = [each["Key"] for page in pages for each in page["Contents"]]
    assert keys == ["copy ü", *(f"d{n}/k" for n in range(5))]
    top = s3.list_objects_v2(**bucket, Delimiter="/")
    assert [each["Prefix"] for each in top["CommonPrefixes"]] == [f"d{n}/" for n in range(5)]
    assert [each["Key"] for each in s3.list_objects(**bucket)["Contents"]] == keys
    s3.delete_objects(**bucket, Delete={"Objects": [{"Key": key} for key in keys]})
    assert s3.list_objects_v2(**bucket)["KeyCount"] == 0
    s3.head_bucket(**bucket)


def test_buckets_behave_as_the_sdks_expect(s3):
    assert code_of(s3.head_bucket, Bucket="not-there") == "404"
    s3.create_bucket(Bucket="made-here")
    s3.create_bucket(Bucket="made-here")
    assert s3.list_objects_v2(Bucket="made-here")["KeyCount"] == 0
    names = [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]
    assert sorted(names) == ["made-here", DEFAULT_BUCKET]


def test_refusals_come_with_their_text_even_before_a_large_body(s3):
    with pytest.raises(s3.exceptions.NoSuchKey, match="The specified key does not exist"):
        s3.get_object(Bucket=DEFAULT_BUCKET, Key="nothing")
    with pytest.raises(s3.exceptions.NoSuchBucket):
        s3.put_object(Bucket="not-there", Key="k", Body=bytes(8 * 1024 * 1024))
    tagging = {"Bucket": DEFAULT_BUCKET, "Key": "k"}
    assert code_of(s3.get_object_tagging, **tagging) == "NotImplemented"


@pytest.mark.parametrize("key", ["../../escaped", "a/../../escaped", "..", "a/../../../escaped"])
def test_no_key_leads_out_of_its_bucket(s3, root, key):
    put = {"Bucket": DEFAULT_BUCKET, "Key": key, "Body": b"x"}
    with pytest.raises(ClientError):
        s3.put_object(**put)
    assert not list(root.folder.parent.rglob("escaped"))


def test_a_folder_marker_does_not_stand_in_the_way_of_the_folder(s3):
    s3.put_object(Bucket=DEFAULT_BUCKET, Key="folder/", Body=b"")
    s3.put_object(Bucket=DEFAULT_BUCKET, Key="folder/file", Body=b"x")
    assert read(s3, "folder/file") == b"x"


@pytest.mark.parametrize("version", ["s3v4", "s3"])
def test_a_presigned_address_works_without_keys_and_for_its_object_only(wire, s3, version):
    s3.put_object(Bucket=DEFAULT_BUCKET, Key="a b+ü", Body=b"shared")
    url = wire.boto("s3", signature_version=version).generate_presigned_url(
        "get_object",
        Params={"Bucket": DEFAULT_BUCKET, "Key": "a b+ü", "ResponseContentType": "text/plain"},
    )
    with urllib.request.urlopen(url, timeout=DEADLINE_SECONDS) as answer:
        assert answer.read() == b"shared"
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(url.replace("a%20b", "other"), timeout=DEADLINE_SECONDS)
    with caught.value as answer:
        assert answer.code == 403


def test_a_server_that_dies_comes_back_on_its_port(s3, s3_server):
    s3.put_object(Bucket=DEFAULT_BUCKET, Key="k", Body=b"kept")
    (rclone,) = descendants(os.getpid())
    os.kill(rclone, signal.SIGKILL)
    wait_until(lambda: descendants(os.getpid()) not in ([], [rclone]), "no new S3 server")

    def answers():
        try:
            return read(s3, "k") == b"kept"
        except ClientError:  # SlowDown, until it is back
            return False

    wait_until(answers, "the new S3 server does not answer")
    assert s3_server.alive()


def test_the_server_dies_with_a_killed_parent_and_another_can_start(root):
    parent = subprocess.Popen(
        [sys.executable, "-c", START_AND_WAIT, str(root.folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent:
        assert parent.stdout is not None
        assert parent.stdout.readline()
        (rclone,) = descendants(parent.pid)
        parent.kill()
    wait_until(lambda: is_gone(rclone), "rclone outlived its parent")
    S3Server.start(root).stop()


def test_the_keys_are_in_no_command_line(root, s3_server):
    (rclone,) = descendants(os.getpid())
    with open(f"/proc/{rclone}/cmdline") as file:
        assert read_credentials(root).secret_key not in file.read()


def test_an_upload_that_breaks_off_leaves_no_object(wire, s3):
    url = wire.boto("s3", signature_version="s3v4").generate_presigned_url(
        "put_object", Params={"Bucket": DEFAULT_BUCKET, "Key": "half"}
    )
    parts = urllib.parse.urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), DEADLINE_SECONDS) as client:
        head = f"PUT {parts.path}?{parts.query} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        client.sendall(f"{head}Content-Length: 10000000\r\n\r\n".encode() + bytes(1_000_000))
        client.shutdown(socket.SHUT_WR)
        while client.recv(1024):  # until the platform has given it up
            pass
    assert s3.list_objects_v2(Bucket=DEFAULT_BUCKET)["KeyCount"] == 0


def test_what_a_killed_server_had_half_received_is_no_object(root):
    bucket = root.s3_dir / DEFAULT_BUCKET
    (bucket / ".rclone_temp_put_1").write_bytes(b"half")
    (bucket / "whole").write_bytes(b"whole")
    S3Server.start(root).stop()
    assert [file.name for file in bucket.iterdir()] == ["whole"]

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

from stoker.machine.processes import descendants, read_command, with_variable
from stoker.platform.model.root import DEFAULT_BUCKET, open_root, read_credentials
from stoker.platform.s3.process import S3Server
from tests.platform.api.api_server import DEADLINE_SECONDS, running_api

pytestmark = pytest.mark.functional

START_AND_WAIT = """\
import sys, time
from pathlib import Path
from stoker.platform.model.root import open_root
from stoker.platform.s3.process import S3Server
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
    with running_api(s3_server.address, read_credentials(root)) as server:
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
    """Ended, though its parent may not have waited for it yet."""
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
    grant = {"Bucket": DEFAULT_BUCKET, "GrantRead": "id=somebody"}
    assert code_of(s3.put_bucket_acl, **grant) == "NotImplemented"
    on = {"Bucket": DEFAULT_BUCKET, "VersioningConfiguration": {"Status": "Enabled"}}
    assert code_of(s3.put_bucket_versioning, **on) == "NotImplemented"


@pytest.mark.parametrize("key", ["../../escaped", "a/../../escaped", "..", "a/../../../escaped"])
def test_no_key_leads_out_of_its_bucket(s3, root, key):
    s3.put_object(Bucket=DEFAULT_BUCKET, Key=key, Body=b"x")
    assert read(s3, key) == b"x"
    files = [file for file in root.folder.parent.rglob("*") if file.is_file()]
    (stored,) = (file for file in files if file.read_bytes() == b"x")
    assert stored.resolve().is_relative_to(root.s3_dir / DEFAULT_BUCKET)
    s3.delete_object(Bucket=DEFAULT_BUCKET, Key=key)
    assert not list((root.s3_dir / DEFAULT_BUCKET).iterdir())


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


@pytest.mark.parametrize("version", ["s3v4", "s3"])
def test_a_presigned_address_of_a_list_works(wire, s3, version):
    s3.put_object(Bucket=DEFAULT_BUCKET, Key="shared/a", Body=b"x")
    url = wire.boto("s3", signature_version=version).generate_presigned_url(
        "list_objects_v2", Params={"Bucket": DEFAULT_BUCKET, "Prefix": "shared/"}
    )
    with urllib.request.urlopen(url, timeout=DEADLINE_SECONDS) as answer:
        assert b"<Key>shared/a</Key>" in answer.read()


def find_s3(root):
    """The process of a root's S3 server; None while there is none."""
    pids = with_variable("STOKER_S3_ROOT", str(root.folder))
    found = [
        pid
        for pid in pids
        if read_command(pid)[1:3] == ["-m", "stoker.platform.s3"] and not is_gone(pid)
    ]
    return found[0] if found else None


def test_a_server_that_dies_comes_back_on_its_port(s3, root, s3_server):
    s3.put_object(Bucket=DEFAULT_BUCKET, Key="k", Body=b"kept")
    process = find_s3(root)
    os.kill(process, signal.SIGKILL)
    wait_until(lambda: find_s3(root) not in (None, process), "no new S3 server")
    wait_until(lambda: answers(s3), "the new S3 server does not answer")


def answers(s3):
    try:
        return read(s3, "k") == b"kept"
    except ClientError:  # SlowDown, until it is back
        return False


def test_a_keeper_that_dies_is_replaced(s3, root, s3_server):
    s3.put_object(Bucket=DEFAULT_BUCKET, Key="k", Body=b"kept")
    process = find_s3(root)
    keeper = next(pid for pid in descendants(os.getpid()) if process in descendants(pid))
    os.kill(keeper, signal.SIGKILL)
    wait_until(lambda: find_s3(root) not in (None, process), "no new S3 server")
    wait_until(lambda: answers(s3), "the new S3 server does not answer")


def start_and_kill(root):
    """A process that started S3 and was killed."""
    parent = subprocess.Popen(
        [sys.executable, "-c", START_AND_WAIT, str(root.folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent:
        assert parent.stdout is not None
        assert parent.stdout.readline()
        process = find_s3(root)
        parent.kill()
    return process


def test_without_jobs_s3_ends_with_a_killed_server_and_another_can_start(root):
    process = start_and_kill(root)
    wait_until(lambda: is_gone(process), "S3 outlived its server")
    S3Server.start(root).stop()
    assert find_s3(root) is None


def test_s3_outlives_a_killed_server_while_a_job_needs_it_and_is_adopted(root):
    (root.jobs_dir / "job").mkdir()
    process = start_and_kill(root)
    for _ in range(2):  # the second time after a clean end of the server
        server = S3Server.start(root)
        assert find_s3(root) == process
        server.stop()
    assert not is_gone(process)
    (root.jobs_dir / "job").rmdir()
    wait_until(lambda: is_gone(process), "S3 outlived the last job")


def test_s3_that_hangs_is_replaced_not_adopted(root, monkeypatch):
    monkeypatch.setattr("stoker.platform.s3.process._ADOPTION_SECONDS", 1)
    (root.jobs_dir / "job").mkdir()
    process = start_and_kill(root)
    os.kill(process, signal.SIGSTOP)
    server = S3Server.start(root)
    assert is_gone(process)
    (root.jobs_dir / "job").rmdir()
    server.stop()


def test_s3_of_other_keys_or_addresses_is_not_adopted(root):
    (root.jobs_dir / "job").mkdir()
    first = S3Server.start(root)
    process, port = find_s3(root), first.port
    first.stop()
    root.credentials_file.unlink()
    open_root(root.folder)
    second = S3Server.start(root)
    assert is_gone(process)
    assert second.port == port
    process = find_s3(root)
    second.stop()
    third = S3Server.start(root, ("127.0.0.1", "127.0.0.2"))
    assert is_gone(process)
    (root.jobs_dir / "job").rmdir()
    third.stop()
    assert find_s3(root) is None


def test_the_keys_are_in_no_command_line(root, s3_server):
    for pid in (find_s3(root), *descendants(os.getpid())):
        assert read_credentials(root).secret_key not in " ".join(read_command(pid))


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


def test_what_a_killed_server_had_half_received_is_removed(root):
    incoming = root.s3_dir / ".stoker/incoming"
    incoming.mkdir(parents=True)
    (incoming / "half").write_bytes(b"half")
    (root.s3_dir / DEFAULT_BUCKET / "whole").write_bytes(b"whole")
    S3Server.start(root).stop()
    assert [file.name for file in (root.s3_dir / DEFAULT_BUCKET).iterdir()] == ["whole"]
    assert not list(incoming.iterdir())

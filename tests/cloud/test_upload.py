"""Folders are sent once for each content, continued where they were cut, and copied inside S3."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from stoker.cloud.account import Account
from stoker.cloud.upload.bucket import Bucket
from stoker.cloud.upload.channel import send_folder
from stoker.cloud.upload.folder import read_folder
from stoker.errors import HostError
from stoker.machine.failures import StorageFailed, UsageRefused
from tests.s3_server import serve_s3

ODD_NAMES = ("a b+c&d=e.txt", "ä/ö.txt", "%41.txt", "x;y?z#.txt")


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    (tmp_path / "s3/mine").mkdir(parents=True)
    with serve_s3(tmp_path / "s3", monkeypatch):
        yield Bucket(Account(), "mine")


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    for name in ("1.bin", "sub/2.bin", "empty", *ODD_NAMES):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(
            b"" if name == "empty" else name.encode() * 99 + bytes(str(folder), "ascii")
        )
    (folder / "link").symlink_to(folder / "sub")
    (folder / "sub/above").symlink_to(folder)  # would never end
    return folder


def contents(folder):
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file() and "above" not in file.parts
    }


def objects(bucket, prefix):
    client = bucket._account.client("s3")
    return {
        key.removeprefix(prefix): client.get_object(Bucket=bucket.name, Key=key)["Body"].read()
        for key in bucket.sizes(prefix)
    }


def test_every_byte_arrives_and_the_second_time_nothing_is_sent(bucket, data, tmp_path):
    memory = tmp_path / "memory"
    folder = read_folder(data, memory=memory)
    sent = send_folder(folder, bucket, prefix="team/", memory=memory)
    wanted = {**contents(data), "link/2.bin": (data / "sub/2.bin").read_bytes()}
    assert objects(bucket, f"team/stoker/channels/{folder.digest}/") == wanted
    assert sent.uri == f"s3://mine/team/stoker/channels/{folder.digest}/"
    assert sent.sent_files == len(folder.files)
    again = send_folder(read_folder(data, memory=memory), bucket, prefix="team/")
    assert (again.sent_files, again.copied_files, again.uri) == (0, 0, sent.uri)


ASK = """
import sys
from pathlib import Path
from stoker.cloud.account import Account
from stoker.cloud.upload.bucket import Bucket
from stoker.cloud.upload.channel import send_folder
from stoker.cloud.upload.folder import read_folder
sent = send_folder(read_folder(Path(sys.argv[1])), Bucket(Account(), "mine"))
print(sent.sent_files, "botocore" in sys.modules)
"""


@pytest.mark.parametrize(
    ("settings", "is_plain"),
    [
        ("", True),
        ("credential_process = {process}", False),
        ("s3 =\n  use_accelerate_endpoint = 0", False),
    ],
)
def test_what_is_there_is_seen_without_botocore_if_the_settings_are_plain(
    bucket, data, tmp_path, monkeypatch, settings, is_plain
):
    process = tmp_path / "process"
    made = {"Version": 1, "AccessKeyId": "key", "SecretAccessKey": "secret"}
    process.write_text(f"#!/bin/sh\necho '{json.dumps(made)}'\n")
    process.chmod(0o755)
    config = tmp_path / "config"
    config.write_text(f"[default]\n{settings.format(process=process)}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    if "process" in settings:
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    for wanted in (f"{len(read_folder(data).files)} True", f"0 {not is_plain}"):
        done = subprocess.run([sys.executable, "-c", ASK, data], capture_output=True, text=True)
        assert (done.stdout.strip(), done.stderr) == (wanted, "")


def test_a_fresh_clone_with_other_times_has_the_same_place(data, tmp_path):
    clone = tmp_path / "clone"
    shutil.copytree(data, clone, symlinks=True, ignore=shutil.ignore_patterns("above", "link"))
    shutil.rmtree(data / "link", ignore_errors=True)
    (data / "link").unlink(missing_ok=True)
    os.utime(clone / "1.bin", (1, 1))
    assert read_folder(clone).digest == read_folder(data).digest


def test_an_upload_that_was_cut_continues(bucket, data, monkeypatch):
    folder = read_folder(data)
    put, left = Bucket.put, 3

    def cut(self, key, file, **options):
        nonlocal left
        left -= 1
        if left < 0:
            raise StorageFailed("cut", fix="again")
        put(self, key, file, **options)

    monkeypatch.setattr(Bucket, "put", cut)
    with pytest.raises(StorageFailed):
        send_folder(folder, bucket)
    monkeypatch.setattr(Bucket, "put", put)
    sent = send_folder(folder, bucket)
    assert 0 < sent.sent_files < len(folder.files)


def test_what_an_earlier_version_had_is_copied_inside_s3(bucket, data, tmp_path):
    memory = tmp_path / "memory"
    send_folder(read_folder(data), bucket, memory=memory)
    (data / "1.bin").write_text("new")
    folder = read_folder(data)
    sent = send_folder(folder, bucket, memory=memory)
    assert sent.sent_files == 1
    assert sent.copied_files == len(folder.files) - 1
    assert objects(bucket, f"stoker/channels/{folder.digest}/")["1.bin"] == b"new"


def test_a_file_that_changes_meanwhile_is_refused(bucket, data):
    folder = read_folder(data)
    (data / "1.bin").write_text("changed")
    with pytest.raises(StorageFailed, match="changed while it was sent"):
        send_folder(folder, bucket)


def test_a_remembered_hash_is_not_used_for_a_file_that_changed(data, tmp_path):
    memory = tmp_path / "memory"
    file = data / "1.bin"
    os.utime(file, (1, 1))
    before = read_folder(data, memory=memory)
    content = file.read_bytes()
    file.write_bytes(content[::-1])  # of the same size, and then of the same time
    os.utime(file, (2, 2))
    assert read_folder(data, memory=memory).digest != before.digest


def test_links_that_lead_back_are_not_followed_for_ever(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / f"{name}/ключ.txt").write_text(name)
    (tmp_path / "a/itself").symlink_to(".")
    (tmp_path / "a/above").symlink_to("../..")
    (tmp_path / "a/other").symlink_to("../b")
    (tmp_path / "b/other").symlink_to("../a")
    names = [file.name for file in read_folder(tmp_path).files]
    assert names == ["a/other/ключ.txt", "a/ключ.txt", "b/other/ключ.txt", "b/ключ.txt"]


def test_what_s3_cannot_hold_is_refused(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "nothing")
    with pytest.raises(UsageRefused, match="link to nothing"):
        read_folder(folder)
    (folder / "link").unlink()
    (folder / os.fsdecode(b"\xff.txt")).touch()
    with pytest.raises(UsageRefused, match="not UTF-8"):
        read_folder(folder)


def test_a_bucket_that_is_not_there_is_named(bucket, data):
    with pytest.raises(HostError, match="no such bucket"):
        send_folder(read_folder(data), Bucket(bucket._account, "nobodys"))

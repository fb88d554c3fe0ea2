"""S3 as the parts around a container use it, against the real embedded server."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from stoker.errors import HostError
from stoker.platform.data.failures import DownloadFailed, TransferCancelled, UploadFailed
from stoker.platform.data.storage import S3Uri, Storage, parse_uri
from stoker.platform.model.root import Credentials, read_credentials
from tests.platform.data.s3_root import BUCKET, running_world, uri
from tests.platform.s3.test_s3_process import find_s3


@pytest.fixture
def world(tmp_path):
    with running_world(tmp_path / "root") as world:
        yield world


def test_objects_are_written_read_and_removed(world, tmp_path):
    storage = world.storage
    content = bytes(range(256)) * 40_000  # 10 MB, more than one chunk
    (tmp_path / "in").write_bytes(content)

    storage.upload(tmp_path / "in", uri("a/b c/ä.bin"))
    storage.download(uri("a/b c/ä.bin"), tmp_path / "out")

    assert (tmp_path / "out").read_bytes() == content
    assert [s.size_bytes for s in storage.list(uri("a/"))] == [len(content)]
    assert storage.exists(uri("a/b c/ä.bin"))
    storage.delete(uri("a/b c/ä.bin"))
    storage.delete(uri("a/b c/ä.bin"))
    assert not storage.exists(uri("a/b c/ä.bin"))
    assert not storage.exists("s3://no-such-bucket/a")


def test_a_list_goes_over_all_pages(world):
    folder = world.object_file("many")
    folder.mkdir()
    for number in range(1203):
        (folder / f"{number:05d}").touch()
    keys = [stored.uri.key for stored in world.storage.list(uri("many/"))]
    assert keys == [f"many/{number:05d}" for number in range(1203)]


def test_an_s3_server_that_is_killed_is_waited_for(world, tmp_path):
    """Else a job would lose its model to a short internal failure."""
    endpoint = f"http://{world.server.address}"
    storage = Storage(endpoint, read_credentials(world.root), patience_seconds=60)
    (tmp_path / "model").write_text("hours of work")
    for number, ask in enumerate(
        (
            lambda: storage.upload(tmp_path / "model", uri("kept/model"), patient=True),
            lambda: list(storage.list(uri("kept/"))),
            lambda: storage.download(uri("kept/model"), tmp_path / "copy"),
        )
    ):
        killed = find_s3(world.root)
        os.kill(killed, signal.SIGKILL)
        ask()
        assert find_s3(world.root) != killed, f"call {number} was answered by a new server"
    assert (tmp_path / "copy").read_text() == "hours of work"
    storage.close()


def test_what_is_missing_is_said_with_a_fix(world, tmp_path):
    with pytest.raises(DownloadFailed, match="no such object or bucket") as caught:
        world.storage.download(uri("nothing"), tmp_path / "x")
    assert f"aws s3 ls s3://{BUCKET}/" in caught.value.fix
    with pytest.raises(DownloadFailed, match="no such object or bucket"):
        list(world.storage.list("s3://no-such-bucket/x"))
    with pytest.raises(UploadFailed, match="cannot be uploaded: No such file"):
        world.storage.upload(tmp_path / "not-there", uri("x"))


def test_a_full_disk_and_a_cancelled_download_are_told_apart(world, tmp_path):
    world.put("object", b"x" * 100_000)
    with pytest.raises(DownloadFailed, match="No space left") as caught:
        world.storage.download(uri("object"), Path("/dev/full"))
    assert "free space" in caught.value.fix
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(TransferCancelled):
        world.storage.download(uri("object"), tmp_path / "x", cancelled=cancelled)


def test_a_server_that_is_away_is_a_failure_not_a_hang(tmp_path):
    keys = Credentials(access_key="abcdef", secret_key="secret")
    storage = Storage("http://127.0.0.1:9", keys)  # the discard port: no process listens
    with pytest.raises(DownloadFailed, match="cannot be read") as caught:
        storage.read(uri("x"))
    assert "does not answer" in caught.value.fix
    storage.close()


def test_the_users_aws_settings_and_proxies_do_not_matter(world, monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    place = world.put("object", "content")
    storage = Storage(f"http://127.0.0.1:{world.server.port}", read_credentials(world.root))
    assert storage.read(place) == b"content"
    storage.close()
    monkeypatch.undo()  # before the guard compares the environment


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("s3://bucket", S3Uri("bucket", "")),
        ("s3://bucket/a/b/", S3Uri("bucket", "a/b/")),
        ("https://s3.amazonaws.com/bucket/a", S3Uri("bucket", "a")),
    ],
)
def test_places_are_read(text, place):
    assert parse_uri(text) == place


@pytest.mark.parametrize("text", ["", "bucket/key", "s3://", "s3:///key", "file:///x"])
def test_an_invalid_address_is_refused(text):
    with pytest.raises(HostError, match="not an S3 address"):
        parse_uri(text)


def test_a_name_below_a_folder_ends_at_its_slash():
    folder = S3Uri("b", "x/code")
    assert S3Uri("b", "x/code/a/b").name_below(folder) == "a/b"
    assert S3Uri("b", "x/code2/a").name_below(folder) is None
    assert S3Uri("b", "a").name_below(S3Uri("b", "")) == "a"
    assert str(folder.join("a")) == str(S3Uri("b", "x/code/").join("a")) == "s3://b/x/code/a"


def test_an_object_larger_than_the_free_space_is_not_begun(world, tmp_path):
    storage = Storage(
        f"http://{world.server.address}", read_credentials(world.root), folder=world.root.s3_dir
    )
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(2**43)  # a hole: it takes no space here
    with pytest.raises(UploadFailed, match=r"the disk of .* is full") as caught:
        storage.upload(tmp_path / "huge", uri("huge"))
    assert "df -h" in caught.value.fix
    storage.close()

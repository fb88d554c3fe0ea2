"""Objects as files: every key has one, and only one, whatever a path can hold."""

from __future__ import annotations

import hashlib
import os
import random
import sqlite3

import pytest

from stoker.platform.s3.object_index import Details
from stoker.platform.s3.object_store import BucketMissing, ObjectStore

KEYS = [
    *("a", "a/b", "a/b/c", "a/b-c", "a b", "a+b", "a-b", "a.b", "a0", "folder/", "new\nline"),
    *("/", "//", "a//b", ".", "..", "../x", "./y", "a/../../b", "../" * 341 + "a", "nul\0x"),
    *("%", "%25", "%2E", "%.a", "%+x", "%-q", "100%", "ü" * 300, "/" * 1024, "a/" * 512),
    *("x" * 253, "x" * 253 + "zz", "x" * 254, "x" * 255, "x" * 255 + "/y"),
    *("x" * 600, "x" * 600 + "/k", "x" * 1024, "L" * 300, "L" * 300 + "/%"),
]
# A list costs a look at every folder: a thousand of them, hundreds of times, take half a minute.
NOT_DEEP = [key for key in KEYS if key.count("/") < 100]


@pytest.fixture
def store(tmp_path):
    store = ObjectStore(tmp_path / "s3")
    store.make_bucket("bucket")
    yield store
    if store.has_bucket("bucket"):  # pytest cannot remove folders in 1,024 folders
        for found in list(store.list_files("bucket")):
            store.remove("bucket", found.key.encode())
    store.close()


def put(store, key, content=None):
    content = key.encode() if content is None else content
    with store.receiving() as file:
        file.write(content)
        etag = hashlib.md5(content).hexdigest()
        details = Details(metadata={"key": "value"})
        return store.commit("bucket", key.encode(), file, etag=etag, details=details)


def list_keys(store, prefix=""):
    return [found.key for found in store.list_files("bucket", prefix)]


def in_order(keys):
    return sorted(keys, key=str.encode)


def test_every_key_is_a_file_of_its_own_that_is_found_and_removed(store, tmp_path):
    keys = random.Random(0).sample(KEYS, len(KEYS))
    for key in keys:
        put(store, key)
    assert list_keys(store) == in_order(keys)
    for key in keys:
        assert store.find_file("bucket", key).read_bytes() == key.encode()
    for number, key in enumerate(keys, start=1):
        store.remove("bucket", key.encode())
        if number % 9 == 0:
            assert list_keys(store) == in_order(keys[number:])
    assert not list((tmp_path / "s3/bucket").iterdir()), "no folder is left"
    assert store.remove_bucket("bucket")
    assert not list(tmp_path.parent.rglob("escaped"))


def test_a_plain_key_is_the_path_of_its_file(store, tmp_path):
    for key in ("a/plain.txt", "a/b c+d%20e/größe~(1).txt", ".hidden"):
        put(store, key)
        assert store.find_file("bucket", key) == tmp_path / "s3/bucket" / key


def expected_list(prefix, delimiter):
    found = {}
    for key in in_order(NOT_DEEP):
        if key.startswith(prefix):
            end = key.find(delimiter, len(prefix)) if delimiter else -1
            found[key if end < 0 else key[: end + len(delimiter)]] = end >= 0
    return found


def test_pages_of_any_size_prefix_and_delimiter_make_the_whole_list(store):
    for key in NOT_DEEP:
        put(store, key)
    chance = random.Random(0)
    for _ in range(300):
        prefix = chance.choice(NOT_DEEP)[: chance.choice([0, 0, 1, 2, 5, 253, 254])]
        delimiter, limit = chance.choice(["", "/", "a", "x", "xx"]), chance.choice([1, 2, 7, 999])
        found, after = {}, b""
        while after is not None:
            page = store.list_page(
                "bucket",
                prefix=prefix.encode(),
                delimiter=delimiter.encode(),
                after=after,
                limit=limit,
            )
            assert len(page.files) + len(page.prefixes) <= limit
            found |= {key.decode(): False for key, _ in page.files}
            found |= {common.decode(): True for common in page.prefixes}
            after = page.next_after
        assert found == expected_list(prefix, delimiter), (prefix, delimiter, limit)


def test_files_that_other_programs_put_change_or_remove_are_seen_with_their_etags(store, tmp_path):
    folder = tmp_path / "s3/bucket/by/hand"
    folder.mkdir(parents=True)
    for number in range(3):
        (folder / f"{number}").write_bytes(b"first")
        (found, *_) = store.list_files("bucket", f"by/hand/{number}")
        assert found.etag == hashlib.md5(b"first").hexdigest()
    (folder / "0").write_bytes(b"other")
    assert store.find("bucket", b"by/hand/0").etag == hashlib.md5(b"other").hexdigest()
    (folder / "1").unlink()
    assert list_keys(store) == ["by/hand/0", "by/hand/2"]
    assert store.find("bucket", b"by/hand/1") is None
    put(store, "by/hand/0", b"through S3")
    assert store.find("bucket", b"by/hand/0").details.metadata == {"key": "value"}
    (folder / "link").symlink_to("/etc/hostname")
    os.mkfifo(folder / "pipe")
    assert list_keys(store) == ["by/hand/0", "by/hand/2"]
    assert store.find_file("bucket", "by/hand/link") is None


def test_a_damaged_index_costs_metadata_but_no_object(store, tmp_path, capsys):
    put(store, "key", b"content")
    store.close()
    index = tmp_path / "s3/.stoker/index.sqlite"
    with sqlite3.connect(index) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    index.write_bytes(b"not a database" * 1000)
    store = ObjectStore(tmp_path / "s3")
    assert store.find("bucket", b"key").etag == hashlib.md5(b"content").hexdigest()
    assert "was damaged" in capsys.readouterr().err
    store.close()


def test_a_bucket_with_the_deepest_folders_can_be_removed(store, tmp_path):
    put(store, "/" * 1024)
    assert not store.remove_bucket("bucket")
    (found,) = store.list_files("bucket")
    found.file.unlink()  # by hand: its folders stay
    assert store.remove_bucket("bucket")


@pytest.mark.parametrize(
    "bucket", ["missing", "", ".", "..", ".stoker", "bucket/key", "../s3", "nul\0x"]
)
def test_what_is_not_a_bucket_is_missing(store, bucket):
    put(store, "key")
    with pytest.raises(BucketMissing):
        list(store.list_files(bucket))
    with pytest.raises(BucketMissing):
        store.find(bucket, b"key")
    assert store.find_file(bucket, "key") is None

"""Folders kept in S3 while a job runs, by the documented semantics."""

from __future__ import annotations

import os
import threading

import pytest

from stoker.platform.data.confined import FileWindow
from stoker.platform.data.failures import DownloadFailed, UploadFailed
from stoker.platform.data.sync import FolderSync
from tests.platform.data.s3_root import read_tree, running_world, uri, wait_for

PREFIX = "ckpt"
FLUSH_SECONDS = 60


@pytest.fixture
def world(tmp_path):
    with running_world(tmp_path / "root") as world:
        yield world


def make_sync(world, *, place="checkpoints", down=True, markers=False, **more):
    host_dir = world.host_dir()
    folder = host_dir / place
    return FolderSync(
        folder, uri(PREFIX), world.storage, down=down, markers=markers, base=host_dir, **more
    )


def test_restore_brings_what_is_below_the_prefix_and_nothing_else(world):
    for key in ("ckpt/step-1", "ckpt/rank0/shard", "ckpt-old/step-9", "ckpt/x.sagemaker-uploaded"):
        world.put(key, key)
    folder = world.host_dir() / "checkpoints"
    folder.mkdir()
    (folder / "of-the-lost-host").touch()
    sync = make_sync(world)
    sync.restore()
    assert read_tree(folder) == {"step-1": b"ckpt/step-1", "rank0/shard": b"ckpt/rank0/shard"}
    sync.start()
    sync.flush_and_stop(FLUSH_SECONDS)
    assert set(world.objects(PREFIX)) == {"step-1", "rank0/shard", "x.sagemaker-uploaded"}


def test_local_changes_and_deletes_are_mirrored_while_the_job_runs(world):
    world.put("ckpt/restored", "old")
    world.put("ckpt/changed", "old")
    sync = make_sync(world, markers=True)
    sync.restore()
    folder = world.host_dir() / "checkpoints"
    sync.start()
    (folder / "restored").unlink()
    (folder / "deep/er").mkdir(parents=True)
    for name in ("changed", "deep/er/new"):
        (folder / "x.sagemaker-ignore").write_text("new")
        (folder / "x.sagemaker-ignore").rename(folder / name)
    (folder / "half.sagemaker-ignore").write_text("never")
    (folder / "dir.sagemaker-ignore").mkdir()
    (folder / "dir.sagemaker-ignore/x").write_text("never")
    wait_for((folder / "deep/er/new.sagemaker-uploaded").exists, "the marker of an upload")
    wait_for((folder / "changed.sagemaker-uploaded").exists, "the marker of an upload")
    wait_for(lambda: not world.object_file("ckpt/restored").exists(), "the delete is mirrored")
    assert world.objects(PREFIX) == {"changed": b"new", "deep/er/new": b"new"}
    (folder / "changed").unlink()
    wait_for(
        lambda: not (folder / "changed.sagemaker-uploaded").exists(), "its marker goes with it"
    )
    (folder / "last").write_text("last words")
    sync.flush_and_stop(FLUSH_SECONDS)
    assert world.objects(PREFIX) == {"deep/er/new": b"new", "last": b"last words"}
    assert not [name for name in read_tree(folder) if name.endswith("-uploading")]


def test_a_file_that_changes_all_the_time_is_whole_in_the_end(world):
    sync = make_sync(world, place="output/tensorboard", down=False)
    sync.start()
    folder = world.host_dir() / "output/tensorboard"
    stop = threading.Event()

    def write_on():
        line = 0
        with (folder / "events").open("ab") as file:
            while not stop.is_set():
                file.write(b"%09d\n" % (line := line + 1))
                file.flush()
                stop.wait(0.001)

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        wait_for(lambda: world.objects(PREFIX).get("events"), "a first part is there")
    finally:
        stop.set()
        writer.join()
    sync.flush_and_stop(FLUSH_SECONDS)
    assert world.objects(PREFIX) == {"events": (folder / "events").read_bytes()}


def test_a_journal_remembers_deletes_over_a_killed_server(world, tmp_path):
    folder = world.host_dir() / "checkpoints"
    journal = tmp_path / "journal.json"
    first = make_sync(world, journal=journal)
    first.restore()
    for name in ("kept", "deleted"):
        (folder / name).write_text(name)
    first.start()
    first.flush_and_stop(FLUSH_SECONDS)
    (folder / "deleted").unlink()  # while no server looks
    second = make_sync(world, journal=journal)
    second.start()
    second.flush_and_stop(FLUSH_SECONDS)
    assert world.objects(PREFIX) == {"kept": b"kept"}
    journal.write_text("{damaged")
    third = make_sync(world, journal=journal)
    third.start()
    third.flush_and_stop(FLUSH_SECONDS)
    assert world.objects(PREFIX) == {"kept": b"kept"}


def test_a_folder_that_is_away_deletes_nothing(world):
    world.put("ckpt/a", "a")
    sync = make_sync(world)
    sync.restore()
    folder = world.host_dir() / "checkpoints"
    (folder / "a").unlink()
    folder.rmdir()
    sync.flush_and_stop(FLUSH_SECONDS)
    assert world.objects(PREFIX) == {"a": b"a"}


def test_a_folder_that_was_lost_while_no_server_ran_deletes_nothing(world, tmp_path):
    world.put("ckpt/a", "a")
    journal = tmp_path / "journal.json"
    make_sync(world, journal=journal).restore()
    folder = world.host_dir() / "checkpoints"
    (folder / "a").unlink()
    folder.rmdir()
    sync = make_sync(world, journal=journal)
    sync.start()
    sync.flush_and_stop(FLUSH_SECONDS)
    assert world.objects(PREFIX) == {"a": b"a"}


def test_links_and_pipes_of_the_job_leak_nothing_and_block_nothing(world, tmp_path):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("secret")
    sync = make_sync(world, markers=True)
    sync.restore()
    folder = world.host_dir() / "checkpoints"
    (folder / "link").symlink_to(secret / "key")
    (folder / "folder").symlink_to(secret)
    (folder / "good").write_text("good")
    (folder / "good.sagemaker-uploaded").symlink_to(secret / "made")
    os.mkfifo(folder / "fifo")
    sync.start()
    sync.flush_and_stop(FLUSH_SECONDS)
    assert world.objects(PREFIX) == {"good": b"good"}
    assert read_tree(secret) == {"key": b"secret"}

    (folder / "fifo").unlink()
    moved = folder.rename(folder.with_name("moved"))
    folder.symlink_to(secret)
    again = make_sync(world)
    again.flush_and_stop(FLUSH_SECONDS)
    assert world.objects(PREFIX) == {"good": b"good"}
    again.restore()
    assert read_tree(secret) == {"key": b"secret"}
    assert read_tree(folder) == {"good": b"good"}
    assert moved.exists()


def test_what_cannot_be_uploaded_is_named_with_a_fix(world):
    sync = make_sync(world)
    sync.restore()
    bad = os.fsencode(world.host_dir() / "checkpoints") + b"/caf\xe9"
    os.close(os.open(bad, os.O_CREAT | os.O_WRONLY))
    with pytest.raises(UploadFailed, match="not UTF-8") as caught:
        sync.flush_and_stop(0.1)
    assert "rename" in caught.value.fix
    sync.flush_and_stop(FLUSH_SECONDS)  # again: nothing


def test_a_flush_ends_in_time_though_s3_is_away(world):
    sync = make_sync(world)
    sync.restore()
    for number in range(200):
        (world.host_dir() / f"checkpoints/{number}").touch()
    world.end_s3()
    with pytest.raises(UploadFailed, match=r"cannot be .*\(and 199 more\)"):
        sync.flush_and_stop(0.5)  # one by one they would take minutes: the test's limit


def test_a_bucket_that_is_not_there_fails_the_restore(world):
    folder = world.host_dir() / "checkpoints"
    sync = FolderSync(folder, "s3://no-such-bucket/x", world.storage, down=True, markers=True)
    with pytest.raises(DownloadFailed, match="no such object or bucket"):
        sync.restore()


def test_a_window_has_its_size_whatever_the_file_does(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"0123456789")
    with file.open("rb") as opened:
        window = FileWindow(opened.fileno(), 10)
        assert window.read(4) == b"0123"
        file.write_bytes(b"")
        assert window.read() == bytes(6)
        assert window.seek(0, os.SEEK_END) == 10
        assert window.read(1) == b""


def test_unfinished_files_are_left_alone_and_removed_where_they_were_uploaded(world, tmp_path):
    folder = world.host_dir() / "tensors"
    journal = tmp_path / "journal.json"
    (folder / "index").mkdir(parents=True)
    for name in ("index/0.json", "index/1.json.tmp"):
        (folder / name).write_text("{}")
    before = make_sync(world, place="tensors", down=False, journal=journal)
    before.start()
    before.flush_and_stop(FLUSH_SECONDS)
    assert world.objects(PREFIX).keys() == {"index/0.json", "index/1.json.tmp"}
    (folder / "index/2.json.tmp").write_text("")
    sync = make_sync(world, place="tensors", down=False, journal=journal, unfinished=(".tmp",))
    sync.start()
    sync.flush_and_stop(FLUSH_SECONDS)
    assert world.objects(PREFIX).keys() == {"index/0.json"}


def test_what_announces_other_files_is_uploaded_after_them(world):
    folder = world.host_dir() / "tensors"
    sync = make_sync(world, place="tensors", down=False, last=("index", "end"))
    for name, size_bytes in (("events/0", 64 << 20), ("index/0", 2), ("end", 0)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(bytes(size_bytes))
    sync.flush_and_stop(FLUSH_SECONDS)
    files = [world.object_file(f"{PREFIX}/{name}") for name in ("events/0", "index/0", "end")]
    assert sorted(files, key=lambda file: file.stat().st_ctime_ns) == files

"""A folder of checkpoints and everything that can be wrong with it. No torch in here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from stoker.checkpoints.checksums import PREFERRED, checksums_of
from stoker.checkpoints.draft import Draft
from stoker.checkpoints.manifest import Manifest, Metric, Shard, manifest_text
from stoker.checkpoints.store import Store, make_name
from stoker.errors import CheckpointFailed

FILE = "rank00000.safetensors"


def add(store, step, *, content=b"tensors" * 100, metric=None, checksum=PREFERRED):
    """Writes a checkpoint as the saver does."""
    draft = Draft(store.folder, f"test-{step}")
    with open(f"{draft.path}/{FILE}", "wb") as file:
        file.write(content)
    known = checksum if checksum in ("crc32", PREFERRED) else "crc32"
    checksums = tuple(checksums_of(memoryview(content), known))
    shard = Shard(name=FILE, size_bytes=len(content), checksums=checksums)
    about = Manifest(
        step=step,
        epoch=0,
        batch=0,
        world_size=1,
        shards=(shard,),
        checksum=checksum,
        metric=metric,
    )
    draft.write("manifest.json", manifest_text(about))
    name = make_name(store.next_serial(), step)
    assert draft.publish(name)
    return name


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "checkpoints")


def names(checkpoints):
    return [checkpoint.name for checkpoint in checkpoints]


def problem_of(store, name):
    return store.look_at(name).problem


def test_an_empty_or_missing_folder_has_no_checkpoint(store):
    assert store.read_all() == []
    assert store.newest() is None
    assert store.prune(keep=1) == []
    assert store.sweep() == []


def test_the_newest_is_the_one_saved_last_whatever_clock_and_step_say(store):
    add(store, 100)
    add(store, 10)  # a run that began again
    os.utime(f"{store.folder}/000001-step-100")  # touched after the other was written
    os.utime(f"{store.folder}/000002-step-10", (0, 0))  # written while the clock was wrong
    assert store.newest().step == 10


def test_a_truncated_file_is_seen_without_reading_it(store):
    add(store, 1)
    name = add(store, 2)
    os.truncate(f"{store.folder}/{name}/{FILE}", 10)
    assert "10 bytes instead of 700" in problem_of(store, name)
    assert store.newest().step == 1


def test_every_flipped_bit_is_found(store):
    add(store, 1)
    name = add(store, 2, content=bytes(range(64)))
    path = f"{store.folder}/{name}/{FILE}"
    for position in range(64):
        with open(path, "r+b") as file:
            file.seek(position)
            file.write(bytes([position ^ (1 << position % 8)]))
        assert "checksum does not fit" in store.verify(store.look_at(name))
        assert store.newest().step == 1
        with open(path, "r+b") as file:
            file.seek(position)
            file.write(bytes([position]))
    assert store.newest().step == 2


def test_every_damaged_byte_of_a_manifest_is_found(store):
    name = add(store, 2, content=b"x")
    path = f"{store.folder}/{name}/manifest.json"
    with open(path, "rb") as file:
        text = file.read()
    for position in range(len(text) - 1):
        damaged = bytearray(text)
        damaged[position] ^= 4
        with open(path, "wb") as file:
            file.write(damaged)
        found = store.look_at(name)
        unchanged = not found.problem and found.manifest == _parsed(text)
        assert found.problem or unchanged, damaged[position - 20 : position + 20]


def _parsed(text):
    from stoker.checkpoints.manifest import parse_manifest

    return parse_manifest(text.decode())


def test_one_without_a_manifest_or_with_a_missing_file_is_passed_over(store):
    add(store, 1)
    without = add(store, 2)
    os.remove(f"{store.folder}/{without}/manifest.json")
    half = add(store, 3)
    os.remove(f"{store.folder}/{half}/{FILE}")  # S3 gave back only a part of it
    assert problem_of(store, without) == "it has no manifest"
    assert problem_of(store, half) == f"{FILE} is missing"
    assert store.newest().step == 1


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{", '{"format": 1}', '{"seal": 1}', "[" * 99999]
)
def test_a_manifest_of_nonsense_is_a_problem_not_an_error(store, text):
    name = add(store, 1)
    with open(f"{store.folder}/{name}/manifest.json", "w") as file:
        file.write(text)
    assert "manifest is damaged" in problem_of(store, name)


def test_a_manifest_cannot_name_files_outside_its_folder(store):
    name = add(store, 1)
    about = store.look_at(name).manifest
    outside = replace(about.shards[0], name="../../../etc/passwd")
    with open(f"{store.folder}/{name}/manifest.json", "w") as file:
        file.write(manifest_text(replace(about, shards=(outside,))))
    assert "names files that no checkpoint has" in problem_of(store, name)


def test_a_checksum_that_is_not_installed_is_said_not_skipped(store):
    add(store, 1, checksum="crc99")
    with pytest.raises(CheckpointFailed, match="'crc99' checksums"):
        store.newest()


def test_the_uploaders_markers_are_not_checkpoints_and_no_foreign_files(store):
    name = add(store, 1)
    for suffix in ("uploading", "uploaded"):
        open(f"{store.folder}/{name}/{FILE}.sagemaker-{suffix}", "w").close()
        open(f"{store.folder}/model.pt.sagemaker-{suffix}", "w").close()
    open(f"{store.folder}/model.pt", "w").close()
    os.mkdir(f"{store.folder}/other.sagemaker-ignore")
    assert store.foreign() == ["model.pt"]
    assert names(store.read_all()) == [name]
    assert store.newest().name == name


def test_pruning_keeps_the_newest_and_the_best(store):
    best = Metric(value=0.9, is_best=True)
    for step in range(6):
        add(store, step, metric=best if step in (0, 2) else None)
    gone = store.prune(keep=2)
    assert [c.step for c in gone] == [0, 1, 3]
    assert [c.step for c in store.read_all()] == [2, 4, 5]
    assert store.best().step == 2


def test_a_dry_run_removes_nothing(store):
    for step in range(3):
        add(store, step)
    assert len(store.prune(keep=1, dry_run=True)) == 2
    assert len(store.read_all()) == 3


def test_pruning_never_removes_the_last_valid_one(store):
    sound = add(store, 1)
    damaged = add(store, 2)
    with open(f"{store.folder}/{damaged}/{FILE}", "r+b") as file:
        file.write(b"X")  # of the right length: only reading it tells
    assert store.prune(keep=1) == []
    assert names(store.read_all()) == [sound, damaged]
    assert store.newest().name == sound


def test_pruning_leaves_all_where_none_is_valid(store):
    for step in (1, 2):
        os.remove(f"{store.folder}/{add(store, step)}/{FILE}")
    assert store.prune(keep=1) == []


def test_one_that_is_being_uploaded_stays(store):
    uploading, uploaded, newest = add(store, 1), add(store, 2), add(store, 3)
    open(f"{store.folder}/{uploading}/{FILE}.sagemaker-uploading", "w").close()
    for suffix in ("uploading", "uploaded"):
        open(f"{store.folder}/{uploaded}/{FILE}.sagemaker-{suffix}", "w").close()
    assert names(store.prune(keep=1)) == [uploaded]
    assert names(store.read_all()) == [uploading, newest]


def test_a_half_written_one_is_swept_once_its_writer_is_dead(store):
    code = (
        "import os, sys; from stoker.checkpoints.draft import Draft;"
        f"Draft({store.folder!r}, 'dead'); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code], timeout=240, check=False)
    alive = Draft(store.folder, "alive")
    assert store.sweep() == ["stoker-dead.sagemaker-ignore"]
    assert os.path.isdir(alive.path)
    alive.discard()


def test_others_ignored_folders_are_not_swept(store):
    os.makedirs(f"{store.folder}/mine.sagemaker-ignore")
    assert store.sweep() == []


def test_two_writers_never_take_the_same_name(store):
    drafts = [Draft(store.folder, f"writer-{i}") for i in range(2)]
    for draft in drafts:
        draft.write("manifest.json", "{}")
    assert drafts[0].publish("000001-step-5")
    assert not drafts[1].publish("000001-step-5")
    assert drafts[1].publish("000002-step-5")


def test_files_that_vanish_while_they_are_listed_are_not_an_error(store):
    """As when another process prunes, or the uploader removes its markers."""
    for step in range(40):
        add(store, step)

    def remove_all():
        for name in sorted(os.listdir(store.folder))[:-1]:
            shutil.rmtree(f"{store.folder}/{name}", ignore_errors=True)

    thread = threading.Thread(target=remove_all)
    thread.start()
    while thread.is_alive():
        store.read_all()
        assert store.newest().step == 39
        store.prune(keep=100)
    thread.join()
    assert [c.step for c in store.read_all()] == [39]


def test_the_store_needs_no_torch():
    code = (
        "import stoker.checkpoints, sys; stoker.checkpoints.Store('/none').read_all();"
        "sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=240, check=False).returncode == 0

"""What the platform copies says how far it has come."""

from __future__ import annotations

import threading
import time

import pytest

from stoker.platform.data import artifacts, channels, sync
from stoker.platform.jobs.changes import begin_attempt, begin_download, new_job, show_transfer
from tests.platform.data.s3_root import make_request, running_world, s3_channel, uri

SIZE_BYTES = 3_000_000


@pytest.fixture
def world(tmp_path, monkeypatch):
    for module in (artifacts, channels, sync):
        monkeypatch.setattr(module, "SHOWN_SECONDS", 0.0)  # a line for each piece
    with running_world(tmp_path / "root") as world:
        yield world


def test_the_download_of_a_channel_is_seen(world):
    world.put("train/a.bin", b"x" * SIZE_BYTES)
    lines = []
    channels.prepare_channels(
        make_request(s3_channel("train", uri("train"))),
        "algo-1",
        world.storage,
        world.host_dir(),
        cancelled=threading.Event(),
        show=lines.append,
    )
    assert lines[-1].startswith("train of algo-1: 3 MB of 3 MB, ")


def test_the_download_of_checkpoints_is_seen(world):
    world.put("kept/a.bin", b"x" * SIZE_BYTES)
    lines = []
    folder = world.host_dir() / "checkpoints"
    sync.FolderSync(folder, uri("kept"), world.storage, down=True, markers=False).restore(
        show=lines.append
    )
    assert lines[-1].startswith("checkpoints: 3 MB of 3 MB, ")


@pytest.mark.parametrize("compression", ["GZIP", "NONE"])
def test_packing_and_upload_of_the_model_are_seen(world, compression):
    model = world.host_dir() / "model/weights.bin"
    model.parent.mkdir()
    model.write_bytes(b"x" * SIZE_BYTES)
    output = {"S3OutputPath": uri("out"), "CompressionType": compression}
    lines = []
    artifacts.pack_and_upload(
        make_request(OutputDataConfig=output),
        {"algo-1": world.host_dir()},
        world.storage,
        world.job_dir / "work",
        show=lines.append,
    )
    whats = list(dict.fromkeys(line.partition(": ")[0] for line in lines))
    packed = ["packing of model.tar.gz", "upload of model.tar.gz"]
    assert whats == (packed if compression == "GZIP" else ["upload of model"])
    last = {line.partition(": ")[0]: line for line in lines}
    assert last[whats[0]].startswith(f"{whats[0]}: 3 MB of 3 MB, ")


def test_it_stands_behind_the_words_of_the_stage_unless_the_job_stops():
    now = time.time()
    job = begin_download(begin_attempt(new_job("j", {}, {}, now), now), now)
    for line in ("train: 1 MB of 3 MB", "train: 2 MB of 3 MB"):
        job = show_transfer(job, line, now)
    assert job.transitions[-1].message == "Downloading input data: train: 2 MB of 3 MB"
    assert job.secondary == "Downloading"
    starting = begin_attempt(new_job("j", {}, {}, now), now)
    assert show_transfer(starting, "late", now) == starting

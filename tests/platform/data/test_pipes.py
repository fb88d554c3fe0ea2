"""Pipe mode: real FIFOs, read as a job reads them."""

from __future__ import annotations

import gzip
import json
import os
import struct

import pytest

from stoker.platform.data.failures import DownloadFailed
from stoker.platform.data.pipes import Pipes, make_record
from tests.platform.data.s3_root import make_request, running_world, s3_channel, uri, wait_for


@pytest.fixture
def world(tmp_path):
    with running_world(tmp_path / "root") as world:
        yield world


class Reader:
    """The job's side of the pipes of one host."""

    def __init__(self, world, *channels, host="algo-1", hosts=1):
        self.folder = world.host_dir(host) / "input/data"
        request = make_request(*channels, hosts=hosts)
        self.pipes = Pipes(request, host, world.storage, world.host_dir(host))

    def __enter__(self):
        self.pipes.start()
        return self

    def __exit__(self, *_):
        self.pipes.stop()

    def open(self, channel, epoch):
        fifo = self.folder / f"{channel}_{epoch}"
        wait_for(fifo.exists, f"{fifo.name} exists")
        return fifo.open("rb")

    def read(self, channel, epoch):
        with self.open(channel, epoch) as file:
            return file.read()


def test_each_epoch_has_a_fifo_with_everything_in_it(world):
    big = os.urandom(3 << 20)  # more than a pipe holds
    world.put("train/a", big)
    world.put("train/b", "end")
    world.put("empty/e", "")
    channels = [s3_channel(name, uri(name), mode="Pipe") for name in ("train", "empty")]
    with Reader(world, *channels) as job:
        assert job.read("train", 0) == big + b"end"
        assert job.read("empty", 0) == b""
        with job.open("train", 1) as file:
            assert file.read(10) == big[:10]  # closing early ends the epoch, too
        assert job.read("train", 2) == big + b"end"
        assert job.pipes.failure is None
    assert not list(job.folder.iterdir()), "no FIFO is left"


def test_records_compression_shuffling_and_shards(world):
    for number in range(6):
        world.put(f"train/{number}.gz", gzip.compress(f"object {number}".encode()))
    channel = s3_channel(
        "train",
        uri("train"),
        mode="Pipe",
        RecordWrapperType="RecordIO",
        CompressionType="Gzip",
        ShuffleConfig={"Seed": 1},
        S3DataDistributionType="ShardedByS3Key",
    )
    seen = {}
    for host in ("algo-1", "algo-2"):
        with Reader(world, channel, host=host, hosts=2) as job:
            seen[host] = [read_records(job.read("train", epoch)) for epoch in range(4)]
    everything = sorted(f"object {number}".encode() for number in range(6))
    for one, other in zip(seen["algo-1"], seen["algo-2"], strict=True):
        assert len(one) == len(other) == 3
        assert sorted(one + other) == everything
    assert len({tuple(share) for share in seen["algo-1"]}) > 1, "never another order"


def test_an_augmented_manifest_gives_objects_and_values_in_turn(world):
    lines = [
        {"image-ref": world.put("images/1", "first"), "label": 3, "unused": 1},
        {"image-ref": world.put("images/2", "second"), "label": {"x": [1]}},
    ]
    place = world.put("a.manifest", "\n".join(map(json.dumps, lines)))
    channel = s3_channel(
        "train",
        place,
        mode="Pipe",
        RecordWrapperType="RecordIO",
        S3DataType="AugmentedManifestFile",
        AttributeNames=["image-ref", "label"],
    )
    with Reader(world, channel) as job:
        assert read_records(job.read("train", 0)) == [b"first", b"3", b"second", b'{"x": [1]}']


def test_a_stop_does_not_wait_for_a_reader(world):
    world.put("train/a", bytes(3 << 20))
    channel = s3_channel("train", uri("train"), mode="Pipe")
    with Reader(world, channel):
        pass  # no process has opened the FIFO
    with Reader(world, channel) as job, job.open("train", 0) as file:
        file.read(1)  # and here one has, but reads no more
        job.pipes.stop()


def test_what_breaks_a_pipe_is_kept_as_its_failure(world):
    with pytest.raises(DownloadFailed, match="No S3 objects found"):
        Reader(world, s3_channel("train", uri("nothing"), mode="Pipe")).pipes.start()
    world.put("plain/a", "this is no gzip")
    place = world.put("list", json.dumps([{"prefix": uri("")}, "vanished"]))
    channels = [
        s3_channel("plain", uri("plain"), mode="Pipe", CompressionType="Gzip"),
        s3_channel("vanished", place, mode="Pipe", S3DataType="ManifestFile"),
    ]
    for channel, said in zip(channels, ("not a whole gzip file", "no such object"), strict=True):
        with Reader(world, channel) as job:
            assert job.read(channel["ChannelName"], 0) == b""
            failure = wait_for(lambda job=job: job.pipes.failure, "the failure is known")
            assert said in failure.message


def test_a_record_is_whole_or_an_error():
    assert (
        b"".join(make_record([b"ab", b"cde"], 5))
        == struct.pack("<II", 0xCED7230A, 5) + b"abcde\0\0\0"
    )
    for size_bytes in (4, 6):
        with pytest.raises(ValueError, match="bytes"):
            list(make_record([b"ab", b"cde"], size_bytes))


def read_records(stream):
    """As AWS's own readers do it."""
    records = []
    while stream:
        magic, length = struct.unpack("<II", stream[:8])
        assert magic == 0xCED7230A
        assert length >> 29 == 0, "a part of a record"
        records.append(stream[8 : 8 + length])
        stream = stream[8 + length + -length % 4 :]
    return records

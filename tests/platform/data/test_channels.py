"""Channels of a host: what is downloaded where, and what must never be written."""

from __future__ import annotations

import json
import resource
import threading
from contextlib import contextmanager

import pytest

from stoker.platform.data.channels import prepare_channels
from stoker.platform.data.failures import DownloadFailed, TransferCancelled
from stoker.platform.model.mount import Mount
from tests.platform.data.s3_root import make_request, read_tree, running_world, s3_channel, uri


@pytest.fixture
def world(tmp_path):
    with running_world(tmp_path / "root") as world:
        yield world


def prepare(world, *channels, host="algo-1", hosts=1, **more):
    request = make_request(*channels, hosts=hosts, **more)
    return prepare_channels(
        request, host, world.storage, world.host_dir(host), cancelled=threading.Event()
    )


def data(world, host="algo-1"):
    return read_tree(world.host_dir(host) / "input/data")


def test_a_prefix_is_a_folder_an_object_or_a_beginning(world):
    for key in ("x/code/a.py", "x/code/lib/b.py", "x/code2/c.py", "y/part-1.csv", "y/part-2.csv"):
        world.put(key, key)
    prepare(
        world,
        s3_channel("folder", uri("x/code")),
        s3_channel("slash", uri("x/code/")),
        s3_channel("object", uri("x/code/a.py")),
        s3_channel("beginning", uri("y/part-")),
    )
    files = data(world)
    assert files["folder/a.py"] == files["object/a.py"] == b"x/code/a.py"
    assert files["folder-manifest"] == b"a.py\nlib/b.py\n"
    assert {name for name in files if not name.endswith("-manifest")} == {
        *("folder/a.py", "folder/lib/b.py", "slash/a.py", "slash/lib/b.py", "object/a.py"),
        *("beginning/part-1.csv", "beginning/part-2.csv"),
    }


def test_a_second_run_starts_over(world):
    world.put("train/a", "new")
    left = world.host_dir() / "input/data/train"
    (left / "a/old").mkdir(parents=True)
    (left / "half").write_text("half a file of a server that was killed")
    prepare(world, s3_channel("train", uri("train")))
    assert data(world) == {"train/a": b"new", "train-manifest": b"a\n"}


def test_shards_cover_everything_once_and_follow_instance_groups(world):
    keys = [f"train/{number}" for number in range(7)]
    for key in keys:
        world.put(key)
    group = {"InstanceType": "ml.m5.large", "InstanceCount": 1}
    resources = {
        "InstanceGroups": [
            {**group, "InstanceGroupName": "data", "InstanceCount": 2},
            {**group, "InstanceGroupName": "gpu"},
        ],
        "VolumeSizeInGB": 1,
    }
    channel = s3_channel(
        "train",
        uri("train"),
        S3DataDistributionType="ShardedByS3Key",
        InstanceGroupNames=["data"],
        ShuffleConfig={"Seed": 3},
    )
    shares = {}
    for host in ("algo-1", "algo-2", "algo-3"):
        prepare(world, channel, host=host, ResourceConfig=resources)
        shares[host] = {name for name in data(world, host) if "/" in name}
    assert shares["algo-3"] == set()
    assert {len(shares["algo-1"]), len(shares["algo-2"])} == {3, 4}
    assert shares["algo-1"] | shares["algo-2"] == set(keys)


def test_a_manifest_names_the_objects(world):
    world.put("deep/er/a", "a")
    world.put("deep/b", "b")
    world.put("deep/c", "not named")
    manifest = json.dumps([{"prefix": uri("deep/")}, "er/a", "b", "b"])
    place = world.put("list.manifest", manifest)
    prepare(world, s3_channel("train", place, S3DataType="ManifestFile"))
    assert data(world) == {"train/er/a": b"a", "train/b": b"b", "train-manifest": b"er/a\nb\n"}


def test_fast_file_is_mounted_read_only_and_a_file_system_from_its_folder(world):
    world.put("train/a")
    data_dir = world.root.folder / "file-systems/fs-0123456789abcdef0/images"
    data_dir.mkdir(parents=True)
    system = {
        "FileSystemId": "fs-0123456789abcdef0",
        "FileSystemType": "EFS",
        "DirectoryPath": "/images",
        "FileSystemAccessMode": "ro",
    }
    vpc = {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-1"]}
    images = {"ChannelName": "images", "DataSource": {"FileSystemDataSource": system}}
    train = s3_channel("train", uri("train"), mode="FastFile")
    mounts = prepare(world, train, images, VpcConfig=vpc)
    folder = world.host_dir() / "input/data"
    assert mounts == (
        Mount(source=folder / "train", target="/opt/ml/input/data/train", read_only=True),
        Mount(source=data_dir, target="/opt/ml/input/data/images", read_only=True),
    )
    assert (folder / "train/a").exists()
    system["DirectoryPath"] = "/nowhere"
    with pytest.raises(DownloadFailed, match=r"fs-0123456789abcdef0.*not on this machine"):
        prepare(world, images, VpcConfig=vpc)


def test_no_key_leaves_its_channel(world):
    for name in ("../../evil", "/etc/evil", "a/../../b", "a//b", ".", "a/\0"):
        place = world.put("list.manifest", json.dumps([{"prefix": uri("deep/")}, name]))
        with pytest.raises(DownloadFailed, match="cannot become a file of the channel"):
            prepare(world, s3_channel("train", place, S3DataType="ManifestFile"))
        assert data(world) == {}


def test_a_file_next_to_its_own_folder_is_refused(world):
    manifest = json.dumps([{"prefix": uri("deep/")}, "a/b", "a"])
    place = world.put("list.manifest", manifest)
    with pytest.raises(DownloadFailed, match="cannot both be files of one channel"):
        prepare(world, s3_channel("train", place, S3DataType="ManifestFile"))


def test_a_link_left_by_an_earlier_attempt_is_not_followed(world, tmp_path):
    world.put("train/a", "secret")
    outside = tmp_path / "outside"
    (outside / "train").mkdir(parents=True)
    (outside / "train/kept").touch()
    (world.host_dir() / "input").mkdir()
    (world.host_dir() / "input/data").symlink_to(outside)
    with pytest.raises(DownloadFailed, match="Not a directory"):
        prepare(world, s3_channel("train", uri("train")))
    (world.host_dir() / "input/data").unlink()
    (world.host_dir() / "input/data").mkdir()
    (world.host_dir() / "input/data/train").symlink_to(outside / "train")
    prepare(world, s3_channel("train", uri("train")))
    assert data(world)["train/a"] == b"secret"
    assert read_tree(outside) == {"train/kept": b""}


def test_what_cannot_be_had_says_why(world):
    with pytest.raises(DownloadFailed, match="No S3 objects found under S3 URL"):
        prepare(world, s3_channel("train", uri("nothing/here")))
    for broken in ("{", '["a"]', '[{"prefix": "s3://b/"}, 1]', '[{"prefix": "x:/"}, "a"]'):
        place = world.put("list.manifest", broken)
        with pytest.raises(DownloadFailed, match=r"list\.manifest"):
            prepare(world, s3_channel("train", place, S3DataType="ManifestFile"))
    gone = world.put("list.manifest", json.dumps([{"prefix": uri("deep/")}, "vanished"]))
    with pytest.raises(DownloadFailed, match=r"deep/vanished cannot be read: there is no such"):
        prepare(world, s3_channel("train", gone, S3DataType="ManifestFile"))


def test_a_disk_that_takes_no_more_is_named(world):
    world.put("train/big", bytes(3 << 20))
    with files_of_at_most(1 << 20), pytest.raises(DownloadFailed, match=r"train/big cannot be st"):
        prepare(world, s3_channel("train", uri("train")))
    assert data(world) == {}, "no half file is left"


def test_a_stop_ends_the_download(world):
    world.put("train/a")
    cancelled = threading.Event()
    cancelled.set()
    request = make_request(s3_channel("train", uri("train")))
    with pytest.raises(TransferCancelled):
        prepare_channels(request, "algo-1", world.storage, world.host_dir(), cancelled=cancelled)


@contextmanager
def files_of_at_most(size_bytes):
    """A limit of the kernel stands in for a full disk: the same write fails the same way."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

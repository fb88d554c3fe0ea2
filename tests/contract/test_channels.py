"""The job's inputs."""

from __future__ import annotations

import pytest

from stoker.contract.channels import read_channels
from stoker.contract.paths import Paths
from stoker.errors import ChannelMissing, ConfigInvalid


def read(opt_ml, content):
    opt_ml.config("inputdataconfig", content)
    return read_channels(Paths(root=str(opt_ml.root)))


def test_no_file_means_no_channels(opt_ml):
    assert list(read_channels(Paths(root=str(opt_ml.root)))) == []


def test_a_channel_is_a_folder_with_its_settings(opt_ml):
    settings = {
        "ContentType": "text/csv",
        "TrainingInputMode": "FastFile",
        "S3DistributionType": "ShardedByS3Key",
        "RecordWrapperType": "RecordIO",
        "SomethingNew": [1],
    }
    channels = read(opt_ml, {"train": settings, "test": {}})
    train = channels.get("train")
    assert str(train.path) == f"{opt_ml.root}/input/data/train"
    assert (train.input_mode, train.content_type) == ("FastFile", "text/csv")
    assert (train.distribution, train.record_wrapper) == ("ShardedByS3Key", "RecordIO")
    assert channels.get("test").input_mode == "File"
    assert [channel.name for channel in channels] == ["train", "test"]
    assert channels.raw["train"] == settings


def test_a_pipe_is_named_by_channel_and_epoch_next_to_the_folder(opt_ml):
    channel = read(opt_ml, {"v1.2-data": {"TrainingInputMode": "Pipe"}}).get("v1.2-data")
    assert str(channel.pipe(0)) == f"{opt_ml.root}/input/data/v1.2-data_0"
    assert str(channel.pipe(11)) == f"{opt_ml.root}/input/data/v1.2-data_11"


def test_reading_never_touches_the_data(opt_ml):
    read(opt_ml, {"train": {"TrainingInputMode": "Pipe"}})
    assert list((opt_ml.root / "input/data").iterdir()) == []


@pytest.mark.parametrize(
    "name", ["", ".", "..", "...", "a/b", "../x", "a b", "a\nb", "train\n", "ä", "x" * 65, "a\0"]
)
def test_a_bad_channel_name_is_refused(opt_ml, name):
    with pytest.raises(ConfigInvalid, match="is not a valid channel name") as caught:
        read(opt_ml, {name: {}})
    assert "64 letters" in caught.value.fix


@pytest.mark.parametrize("name", ["a", "A-b_c.d", ".hidden", "x" * 64, "0"])
def test_every_legal_channel_name_is_taken(opt_ml, name):
    assert read(opt_ml, {name: {}}).get(name).name == name


@pytest.mark.parametrize("settings", [None, "File", [], 1])
def test_settings_that_are_not_an_object_are_refused(opt_ml, settings):
    with pytest.raises(ConfigInvalid, match="channel 'train' is"):
        read(opt_ml, {"train": settings})


@pytest.mark.parametrize("mode", ["file", "", None, [], "Stream"])
def test_an_unknown_input_mode_is_refused_with_those_there_are(opt_ml, mode):
    with pytest.raises(ConfigInvalid, match="TrainingInputMode") as caught:
        read(opt_ml, {"train": {"TrainingInputMode": mode}})
    assert "File, FastFile, Pipe" in caught.value.fix


def test_a_missing_channel_names_those_there_are(opt_ml):
    channels = read(opt_ml, {"train": {}, "test": {}})
    with pytest.raises(ChannelMissing, match=r"'valid' was asked for.*train, test") as caught:
        channels.get("valid")
    assert "fit(" in caught.value.fix

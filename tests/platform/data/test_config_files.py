"""The files of /opt/ml/input/config, and that our own launcher's contract reads them."""

from __future__ import annotations

import json

import pytest

from stoker.contract.channels import read_channels
from stoker.contract.cluster import read_cluster
from stoker.contract.paths import Paths
from stoker.platform.data.config_files import write_config_files
from stoker.platform.data.failures import DownloadFailed
from tests.platform.data.s3_root import make_request, s3_channel, uri


def write(request, host, host_dir, addresses=None):
    host_dir.mkdir(exist_ok=True)
    write_config_files(request, host, host_dir, addresses=addresses or {})
    files = (host_dir / "input/config").iterdir()
    return {file.name: json.loads(file.read_text()) for file in files}


def test_a_plain_job_has_only_the_files_that_every_job_has(tmp_path):
    request = make_request(HyperParameters={"lr": "0.1", "s": "\"ä'\\n"})
    files = write(request, "algo-1", tmp_path / "host")
    assert files.pop("trainingjobconfig.json")["TrainingJobName"] == "job"
    assert files == {
        "hyperparameters.json": {"lr": "0.1", "s": "\"ä'\\n"},
        "inputdataconfig.json": {},
        "resourceconfig.json": {
            "current_host": "algo-1",
            "current_instance_type": "ml.m5.large",
            "current_group_name": "homogeneousCluster",
            "hosts": ["algo-1"],
            "instance_groups": [
                {
                    "instance_group_name": "homogeneousCluster",
                    "instance_type": "ml.m5.large",
                    "hosts": ["algo-1"],
                }
            ],
            "network_interface_name": "eth0",
        },
    }


def test_hosts_are_sorted_as_text_and_channels_follow_their_groups(tmp_path):
    resources = {
        "InstanceGroups": [
            {"InstanceGroupName": "gpu", "InstanceType": "ml.g5.xlarge", "InstanceCount": 9},
            {"InstanceGroupName": "cpu", "InstanceType": "ml.c5.xlarge", "InstanceCount": 2},
        ],
        "VolumeSizeInGB": 1,
    }
    request = make_request(
        s3_channel("all", uri("a"), ContentType="text/csv"),
        s3_channel("some", uri("b"), mode="FastFile", InstanceGroupNames=["cpu"]),
        ResourceConfig=resources,
    )
    loopback = {"algo-1": "127.0.0.1", "algo-10": "127.0.0.2"}
    write(request, "algo-10", tmp_path / "cpu", loopback)
    write(request, "algo-1", tmp_path / "gpu", loopback)

    cluster = read_cluster(Paths(root=str(tmp_path / "cpu")))
    assert cluster.hosts[:3] == ("algo-1", "algo-10", "algo-11")
    assert (cluster.current_host, cluster.group_name) == ("algo-10", "cpu")
    assert cluster.network_interface == "lo"
    assert [c.name for c in read_channels(Paths(root=str(tmp_path / "gpu")))] == ["all"]
    some = read_channels(Paths(root=str(tmp_path / "cpu"))).get("some")
    assert (some.input_mode, some.distribution) == ("FastFile", "FullyReplicated")


def test_what_the_request_asks_for_has_its_file(tmp_path):
    definitions = [{"Name": "loss", "Regex": "loss=(.*)"}]
    request = make_request(
        CheckpointConfig={"S3Uri": uri("c"), "LocalPath": "/elsewhere"},
        TensorBoardOutputConfig={"S3OutputPath": uri("t")},
        DebugHookConfig={
            "S3OutputPath": uri("d"),
            "CollectionConfigurations": [{"CollectionName": "losses"}],
        },
        ProfilerConfig={"S3OutputPath": uri("p"), "ProfilingParameters": {"StartStep": "5"}},
        AlgorithmSpecification={
            "TrainingImage": "image",
            "TrainingInputMode": "File",
            "MetricDefinitions": definitions,
        },
    )
    files = write(request, "algo-1", tmp_path / "host")
    assert files["checkpointconfig.json"] == {"LocalPath": "/elsewhere"}
    assert files["tensorboardoutputconfig.json"] == {"LocalPath": "/opt/ml/output/tensorboard"}
    assert files["debughookconfig.json"] == {
        "S3OutputPath": uri("d"),
        "LocalPath": "/opt/ml/output/tensors",
        "CollectionConfigurations": [{"CollectionName": "losses"}],
    }
    assert files["profilerconfig.json"] == {
        "ProfilingIntervalInMilliseconds": 500,
        "DisableProfiler": False,
        "ProfilingParameters": {"StartStep": "5"},
    }
    assert files["metric-definition-regex.json"] == definitions


def test_a_profiler_that_is_switched_off_is_seen_as_such(tmp_path):
    request = make_request(ProfilerConfig={"DisableProfiler": True})
    files = write(request, "algo-1", tmp_path / "host")
    assert files["profilerconfig.json"]["DisableProfiler"] is True


def test_a_link_in_place_of_the_folder_is_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "host/input").mkdir(parents=True)
    (tmp_path / "host/input/config").symlink_to(outside)
    with pytest.raises(DownloadFailed, match="cannot be stored"):
        write(make_request(), "algo-1", tmp_path / "host")
    assert not list(outside.iterdir())

"""CreateTrainingJob as a typed value, and the rules between its fields."""

from __future__ import annotations

import pytest

from stoker.platform.model.faults import ApiFault
from stoker.platform.model.instances import describe_choice
from stoker.platform.model.request import FileSystem, SyncedFolder, read_request
from tests.platform.training_requests import make_channel, make_request

GROUPS = [
    {"InstanceGroupName": "big", "InstanceType": "ml.g5.xlarge", "InstanceCount": 10},
    {"InstanceGroupName": "small", "InstanceType": "ml.m5.large", "InstanceCount": 2},
]


def test_what_is_left_out_gets_the_defaults_of_the_service():
    request = read_request(make_request(StoppingCondition=None))
    assert (request.name, request.image, request.hosts) == ("job-1", "stoker:cpu", ("algo-1",))
    assert request.entrypoint is None
    assert request.arguments == ()
    assert request.output_uri == "s3://bucket/out"
    assert request.compression == "GZIP"
    assert request.max_runtime_seconds == 86_400
    assert (request.spot, request.max_wait_seconds, request.retries) == (False, None, 0)
    assert request.checkpoint is request.tensorboard is request.debug_hook is None
    assert request.groups[0].name == "homogeneousCluster"
    assert request.instance_type("algo-1") == "ml.m5.xlarge"


def test_hosts_are_numbered_over_all_groups_and_sorted_as_text():
    request = read_request(make_request(ResourceConfig={"InstanceGroups": GROUPS}))
    assert len(request.hosts) == 12
    assert request.hosts[:4] == ("algo-1", "algo-10", "algo-11", "algo-12")
    assert request.groups[1].hosts == ("algo-11", "algo-12")
    assert request.instance_type("algo-12") == "ml.m5.large"


def test_channels_take_the_jobs_mode_unless_they_have_their_own():
    system = {
        "FileSystemId": "fs-12345678",
        "FileSystemType": "EFS",
        "FileSystemAccessMode": "ro",
        "DirectoryPath": "/data",
    }
    request = read_request(
        make_request(
            AlgorithmSpecification={"TrainingImage": "i", "TrainingInputMode": "FastFile"},
            InputDataConfig=[
                make_channel("a", S3DataDistributionType="ShardedByS3Key"),
                make_channel("b", InputMode="Pipe", ShuffleConfig={"Seed": 7}),
                {
                    "ChannelName": "c",
                    "InputMode": "File",
                    "DataSource": {"FileSystemDataSource": system},
                },
            ],
            VpcConfig={"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-1"]},
        )
    )
    a, b, c = request.channels
    assert (a.mode, a.distribution, a.uri) == ("FastFile", "ShardedByS3Key", "s3://bucket/a")
    assert (b.mode, b.shuffle_seed) == ("Pipe", 7)
    assert (c.data_type, c.uri) == ("FileSystem", "")
    assert c.file_system == FileSystem(
        id="fs-12345678", type="EFS", directory="/data", access="ro"
    )


def test_synced_folders_have_their_places():
    request = read_request(
        make_request(
            CheckpointConfig={"S3Uri": "s3://bucket/ckpt"},
            TensorBoardOutputConfig={"S3OutputPath": "s3://bucket/tb", "LocalPath": "/logs"},
            DebugHookConfig={"S3OutputPath": "s3://bucket/t", "CollectionConfigurations": []},
            ProfilerConfig={"S3OutputPath": "s3://bucket/p", "DisableProfiler": False},
        )
    )
    folder = SyncedFolder(local_path="/opt/ml/checkpoints", uri="s3://bucket/ckpt")
    assert request.checkpoint == folder
    assert request.tensorboard == SyncedFolder(local_path="/logs", uri="s3://bucket/tb")
    assert request.debug_hook is not None
    assert request.debug_hook.local_path == "/opt/ml/output/tensors"
    assert request.profiler is not None
    disabled = {"S3OutputPath": "s3://bucket/p", "DisableProfiler": True}
    assert read_request(make_request(ProfilerConfig=disabled)).profiler is None


@pytest.mark.parametrize("path", ["/opt/ml//deep/./er/", "//opt/ml/deep/er"])
def test_a_local_path_is_taken_in_its_plain_form(path):
    """Else `/opt/ml//etc` would be /etc of this machine once it is joined to a folder."""
    config = {"S3Uri": "s3://bucket/ckpt", "LocalPath": path}
    request = read_request(make_request(CheckpointConfig=config))
    assert request.checkpoint == SyncedFolder(local_path="/opt/ml/deep/er", uri="s3://bucket/ckpt")
    profiler = read_request(make_request(**profiler_folder(path))).profiler
    assert profiler is not None
    assert profiler.local_path == "/opt/ml/deep/er"


def algorithm(**changes):
    return {"AlgorithmSpecification": {"TrainingInputMode": "File", **changes}}


def profiler_folder(path):
    parameters = {"LocalPath": path}
    return {"ProfilerConfig": {"S3OutputPath": "s3://b-1", "ProfilingParameters": parameters}}


def channel(**changes):
    return {"InputDataConfig": [make_channel(**changes)]}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"EnableManagedSpotTraining": True},
            "Invalid MaxWaitTimeInSeconds. It must be present and be greater than or equal to",
        ),
        (
            {
                "EnableManagedSpotTraining": True,
                "StoppingCondition": {"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 59},
            },
            "Invalid MaxWaitTimeInSeconds",
        ),
        ({"StoppingCondition": {"MaxWaitTimeInSeconds": 90_000}}, "only when"),
        ({"StoppingCondition": {"MaxRuntimeInSeconds": 2_419_201}}, "at most 2419200"),
        ({"AlgorithmSpecification": None}, "AlgorithmSpecification is required"),
        (algorithm(), "either AlgorithmName or TrainingImage"),
        (algorithm(AlgorithmName="xgb"), "not supported by the local platform"),
        (algorithm(AlgorithmName="xgb", TrainingImage="i"), "can't specify both"),
        (
            algorithm(TrainingImage="i", MetricDefinitions=[{"Name": "m", "Regex": "loss=("}]),
            "regex of metric 'm' is invalid",
        ),
        ({"ResourceConfig": None}, "ResourceConfig is required"),
        ({"ResourceConfig": {"InstanceCount": 1}}, "InstanceType and InstanceCount, or"),
        (
            {"ResourceConfig": {"InstanceGroups": GROUPS, "InstanceCount": 1}},
            "InstanceGroups can't be specified together with InstanceCount",
        ),
        ({"ResourceConfig": {"InstanceGroups": GROUPS[:1] * 2}}, "'big' is repeated"),
        ({"ResourceConfig": {"InstanceType": "x", "InstanceCount": 0}}, "at least 1"),
        ({"InputDataConfig": [make_channel(), make_channel()]}, "'train' is repeated"),
        ({"InputDataConfig": [make_channel("..")]}, "'..' is not a channel name"),
        (
            {"InputDataConfig": [{"ChannelName": "train", "DataSource": {}}]},
            "Channel 'train': DataSource must have exactly one",
        ),
        (channel(S3Uri="s3://bucket/a/../b"), "no '.' or '..'"),
        (channel(S3Uri="https://bucket/a"), "must be s3://"),
        (channel(S3Uri="s3://Bucket_1/a"), "valid bucket name"),
        (channel(S3DataType="AugmentedManifestFile", AttributeNames=["a"]), "mode is Pipe"),
        (channel(S3DataType="AugmentedManifestFile", InputMode="Pipe"), "AttributeNames is req"),
        (channel(AttributeNames=["a"]), "only with AugmentedManifestFile"),
        (channel(InstanceGroupNames=["big"]), "not one of InstanceGroups"),
        ({"CheckpointConfig": {"S3Uri": "s3://b-1/c", "LocalPath": "/a/../b"}}, "without '..'"),
        ({"CheckpointConfig": {"S3Uri": "s3://b-1/c", "LocalPath": "/opt/ml"}}, "itself"),
        ({"CheckpointConfig": {"S3Uri": "s3://b-1/c", "LocalPath": "//opt/ml/model/x"}}, "itself"),
        (
            {"TensorBoardOutputConfig": {"S3OutputPath": "s3://b-1", "LocalPath": "/opt/ml/tb"}},
            "must not be under /opt/ml",
        ),
        (
            {"ProfilerConfig": {"ProfilingIntervalInMilliseconds": 3}},
            "must be one of 100, 200, 500, 1000, 5000, 60000",
        ),
        (profiler_folder("/opt/ml/../../etc"), "without '..'"),
        (profiler_folder("/opt/ml/input/config"), "itself"),
        ({"Tags": [{"Key": "a", "Value": "1"}, {"Key": "a", "Value": "2"}]}, "'a' is repeated"),
        ({"ServerlessJobConfig": {}}, "ServerlessJobConfig is not supported"),
    ],
)
def test_a_broken_rule_is_refused_and_explained(changes, text):
    with pytest.raises(ApiFault) as caught:
        read_request(make_request(**changes))
    assert caught.value.code == "ValidationException"
    assert text in caught.value.message


def test_the_folder_that_stands_for_opt_ml_cannot_be_chosen_by_a_request():
    with pytest.raises(ApiFault, match=r"Environment must not have STOKER_ROOT.*Leave it out"):
        read_request(make_request(Environment={"STOKER_ROOT": "/tmp/elsewhere"}))


def test_all_broken_rules_are_told_at_once():
    with pytest.raises(ApiFault) as caught:
        read_request(make_request(EnableManagedSpotTraining=True, ResourceConfig=None))
    assert caught.value.message.startswith("2 validation errors detected: ")


def test_the_defaults_of_sdk_v3_are_not_a_mistake():
    """It names the default folders itself."""
    read_request(
        make_request(
            CheckpointConfig={"S3Uri": "s3://bucket/c", "LocalPath": "/opt/ml/checkpoints"},
            TensorBoardOutputConfig={
                "S3OutputPath": "s3://bucket/tb",
                "LocalPath": "/opt/ml/output/tensorboard",
            },
        )
    )


def test_more_hosts_than_one_machine_can_hold_exceed_the_limit():
    many = {"InstanceType": "ml.m5.xlarge", "InstanceCount": 1000}
    with pytest.raises(ApiFault) as caught:
        read_request(make_request(ResourceConfig=many))
    assert caught.value.code == "ResourceLimitExceeded"
    assert "is 20 Instances" in caught.value.message


PREFERRED = {"VolumeSizeInGB": 1, "InstancePreferences": [{"InstanceType": "ml.g5.xlarge"}]}


def test_the_first_of_the_preferred_instance_types_is_taken():
    preferences = [{"InstanceType": "ml.g5.xlarge"}, {"InstanceType": "ml.g4dn.xlarge"}]
    resources = {**PREFERRED, "InstanceCount": 2, "InstancePreferences": preferences}
    request = read_request(make_request(ResourceConfig=resources))
    (group,) = request.groups
    assert (group.instance_type, group.hosts) == ("ml.g5.xlarge", ("algo-1", "algo-2"))
    chosen = {"SelectedInstanceType": "ml.g5.xlarge", "SelectedInstanceCount": 2}
    assert describe_choice(resources) == chosen


@pytest.mark.parametrize(
    ("resources", "text"),
    [
        ({**PREFERRED, "InstanceType": "ml.m5.large", "InstanceCount": 1}, "together with Inst"),
        (PREFERRED, "InstanceCount must be in all"),
        ({**PREFERRED, "InstanceCount": 1, "SelectedInstanceCount": 1}, "is returned by"),
    ],
)
def test_preferences_follow_the_rules_of_the_service(resources, text):
    with pytest.raises(ApiFault, match=text):
        read_request(make_request(ResourceConfig=resources))

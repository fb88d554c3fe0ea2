"""CreateTrainingJob as the rest of the platform sees it: frozen, typed, defaults filled in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from posixpath import normpath
from typing import Any, Literal
from urllib.parse import unquote_to_bytes

from stoker.platform.model.instances import choose_groups
from stoker.platform.model.request_rules import require_rules

DEFAULT_VOLUME_GB = 30
DEFAULT_RUNTIME_SECONDS = 86_400  # the service's default

InputMode = Literal["File", "FastFile", "Pipe"]
Distribution = Literal["FullyReplicated", "ShardedByS3Key"]
DataType = Literal["S3Prefix", "ManifestFile", "AugmentedManifestFile", "FileSystem"]


@dataclass(frozen=True, kw_only=True, slots=True)
class FileSystem:
    """A file-system channel's source; locally a folder is used instead."""

    id: str
    type: Literal["EFS", "FSxLustre"]
    directory: str
    access: Literal["rw", "ro"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelSource:
    """One named input, as it was asked for."""

    name: str
    mode: InputMode
    content_type: str | None
    record_wrapper: Literal["None", "RecordIO"]
    compression: Literal["None", "Gzip"]
    shuffle_seed: int | None
    distribution: Distribution
    data_type: DataType
    uri: str
    """Of the prefix or the manifest; empty for a file system."""

    file_system: FileSystem | None
    attribute_names: tuple[str, ...]
    instance_groups: tuple[str, ...]
    """Which groups of hosts get it; empty means all."""

    local_path: str = ""
    """Where it is in the container, of a processing job's input; a channel has its own place."""

    @property
    def folder(self) -> Path | None:
        """The folder of this machine that it is; None if it is in S3 or a file system."""
        return parse_folder(self.uri)


@dataclass(frozen=True, kw_only=True, slots=True)
class HostGroup:
    """Hosts of one instance type."""

    name: str
    instance_type: str
    hosts: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SyncedFolder:
    """A folder of the container that is kept in S3."""

    local_path: str
    uri: str
    """As in the request: the folder's own prefix (checkpoints), or the one above it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DebugHook:
    """Where and what the debugger hook saves."""

    local_path: str
    uri: str
    parameters: Mapping[str, str]
    collections: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class DebugRule:
    """A rule of debugger or profiler; the job's own container evaluates it, whatever image was
    named."""

    name: str
    parameters: Mapping[str, str]
    output_uri: str
    """The folder of all rules' output; without a slash at its end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Profiler:
    """What the profiler measures."""

    local_path: str
    uri: str
    interval_milliseconds: int | None
    parameters: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingRequest:
    """One training job, as it was asked for."""

    raw: Mapping[str, Any]
    """The request itself, for what is only echoed."""

    name: str
    image: str
    input_mode: InputMode
    entrypoint: tuple[str, ...] | None
    """None: the image's own."""

    arguments: tuple[str, ...]
    """None of them: `train`, unless there is an entrypoint."""

    hyperparameters: Mapping[str, str]
    environment: Mapping[str, str]
    channels: tuple[ChannelSource, ...]
    output_uri: str
    """Without a slash at its end; keys are ignored: nothing is encrypted on this machine."""

    compression: Literal["GZIP", "NONE"]
    groups: tuple[HostGroup, ...]
    hosts: tuple[str, ...]
    """algo-1 and so on, sorted as text: algo-10 before algo-2, as the service does."""

    volume_gb: int
    max_runtime_seconds: int
    max_wait_seconds: int | None
    spot: bool
    retries: int
    """How often the platform may try again after a fault of its own."""

    checkpoint: SyncedFolder | None
    tensorboard: SyncedFolder | None
    debug_hook: DebugHook | None
    debug_rules: tuple[DebugRule, ...]
    profiler_rules: tuple[DebugRule, ...]
    profiler: Profiler | None
    metric_definitions: tuple[tuple[str, str], ...]
    """Names and regular expressions."""

    isolated: bool
    tags: tuple[Mapping[str, str], ...]

    @property
    def rules(self) -> tuple[DebugRule, ...]:
        """Of the debugger and of the profiler: one evaluator looks after all of them."""
        return (*self.debug_rules, *self.profiler_rules)

    def group_of(self, host: str) -> HostGroup:
        """The group a host belongs to."""
        return next(group for group in self.groups if host in group.hosts)

    def instance_type(self, host: str) -> str:
        """The instance type a host stands for."""
        return self.group_of(host).instance_type


def read_request(raw: Mapping[str, Any]) -> TrainingRequest:
    """Read a request that fits the service model.

    Raises:
        ApiFault: it breaks a rule between fields; all broken ones are listed.
    """
    require_rules(raw)
    return parse_request(raw)


def parse_request(raw: Mapping[str, Any]) -> TrainingRequest:
    """Read a request that was accepted before: whatever the rules are now, it is carried out."""
    algorithm = raw["AlgorithmSpecification"]
    stopping = raw.get("StoppingCondition", {})
    groups = _groups(raw["ResourceConfig"])
    output = raw["OutputDataConfig"]
    return TrainingRequest(
        raw=raw,
        name=raw["TrainingJobName"],
        image=algorithm["TrainingImage"],
        input_mode=algorithm["TrainingInputMode"],
        entrypoint=tuple(algorithm.get("ContainerEntrypoint", ())) or None,
        arguments=tuple(algorithm.get("ContainerArguments", ())),
        hyperparameters=raw.get("HyperParameters", {}),
        environment=raw.get("Environment", {}),
        channels=tuple(
            _channel(channel, algorithm["TrainingInputMode"])
            for channel in raw.get("InputDataConfig", ())
        ),
        output_uri=output["S3OutputPath"].rstrip("/"),
        compression=output.get("CompressionType", "GZIP"),
        groups=groups,
        hosts=tuple(sorted(host for group in groups for host in group.hosts)),
        volume_gb=raw["ResourceConfig"].get("VolumeSizeInGB", DEFAULT_VOLUME_GB),
        max_runtime_seconds=stopping.get("MaxRuntimeInSeconds", DEFAULT_RUNTIME_SECONDS),
        max_wait_seconds=stopping.get("MaxWaitTimeInSeconds"),
        spot=raw.get("EnableManagedSpotTraining", False),
        retries=raw.get("RetryStrategy", {}).get("MaximumRetryAttempts", 0),
        checkpoint=_synced(raw.get("CheckpointConfig"), "S3Uri", "/opt/ml/checkpoints"),
        tensorboard=_synced(
            raw.get("TensorBoardOutputConfig"), "S3OutputPath", "/opt/ml/output/tensorboard"
        ),
        debug_hook=_debug_hook(raw.get("DebugHookConfig")),
        debug_rules=tuple(
            _debug_rule(rule, raw) for rule in raw.get("DebugRuleConfigurations", ())
        ),
        profiler_rules=tuple(
            _debug_rule(rule, raw) for rule in raw.get("ProfilerRuleConfigurations", ())
        ),
        profiler=parse_profiler(raw.get("ProfilerConfig")),
        metric_definitions=tuple(
            (metric["Name"], metric["Regex"]) for metric in algorithm.get("MetricDefinitions", ())
        ),
        isolated=raw.get("EnableNetworkIsolation", False),
        tags=tuple(raw.get("Tags", ())),
    )


def _groups(resources: Mapping[str, Any]) -> tuple[HostGroup, ...]:
    groups, last = [], 0
    for group in choose_groups(resources):
        # Numbers continue over the groups: each host of a job has its own name.
        numbers = range(last + 1, last + 1 + group["InstanceCount"])
        last = numbers.stop - 1
        groups.append(
            HostGroup(
                name=group["InstanceGroupName"],
                instance_type=group["InstanceType"],
                hosts=tuple(sorted(f"algo-{number}" for number in numbers)),
            )
        )
    return tuple(groups)


def _channel(channel: Mapping[str, Any], default_mode: InputMode) -> ChannelSource:
    source = channel["DataSource"]
    s3 = source.get("S3DataSource", {})
    system = source.get("FileSystemDataSource")
    return ChannelSource(
        name=channel["ChannelName"],
        mode=channel.get("InputMode", default_mode),
        content_type=channel.get("ContentType"),
        record_wrapper=channel.get("RecordWrapperType", "None"),
        compression=channel.get("CompressionType", "None"),
        shuffle_seed=channel.get("ShuffleConfig", {}).get("Seed"),
        distribution=s3.get("S3DataDistributionType", "FullyReplicated"),
        data_type="FileSystem" if system else s3["S3DataType"],
        uri=s3.get("S3Uri", ""),
        file_system=_file_system(system) if system else None,
        attribute_names=tuple(s3.get("AttributeNames", ())),
        instance_groups=tuple(s3.get("InstanceGroupNames", ())),
    )


def _file_system(system: Mapping[str, Any]) -> FileSystem:
    return FileSystem(
        id=system["FileSystemId"],
        type=system["FileSystemType"],
        directory=system["DirectoryPath"],
        access=system["FileSystemAccessMode"],
    )


def _synced(config: Mapping[str, Any] | None, uri: str, default: str) -> SyncedFolder | None:
    if config is None:
        return None
    return SyncedFolder(local_path=_local_path(config, default), uri=config[uri])


def _debug_hook(config: Mapping[str, Any] | None) -> DebugHook | None:
    if config is None:
        return None
    return DebugHook(
        local_path=_local_path(config, "/opt/ml/output/tensors"),
        uri=config["S3OutputPath"],
        parameters=config.get("HookParameters", {}),
        collections=tuple(config.get("CollectionConfigurations", ())),
    )


def _debug_rule(config: Mapping[str, Any], raw: Mapping[str, Any]) -> DebugRule:
    place = config.get("S3OutputPath") or raw["OutputDataConfig"]["S3OutputPath"]
    return DebugRule(
        name=config["RuleConfigurationName"],
        parameters=config.get("RuleParameters", {}),
        output_uri=f"{place.rstrip('/')}/{raw['TrainingJobName']}/rule-output",
    )


def parse_profiler(config: Mapping[str, Any] | None) -> Profiler | None:
    if config is None or config.get("DisableProfiler", False) or "S3OutputPath" not in config:
        return None
    parameters = config.get("ProfilingParameters", {})
    return Profiler(
        local_path=_local_path(parameters, "/opt/ml/output/profiler"),
        uri=config["S3OutputPath"],
        interval_milliseconds=config.get("ProfilingIntervalInMilliseconds"),
        parameters=parameters,
    )


def _local_path(config: Mapping[str, Any], default: str) -> str:
    """In its plain form: `/opt/ml//x` is `/opt/ml/x`, and nothing climbs by `..`."""
    return normpath(f"/{config.get('LocalPath', default).lstrip('/')}")


def parse_folder(uri: str) -> Path | None:
    """The folder that a `file:///…` address names; None if it is not such an address."""
    if not uri.startswith("file:///"):
        return None
    return Path(os.fsdecode(unquote_to_bytes(uri.removeprefix("file://"))))


def report_uri(output_uri: str, job: str) -> str:
    """Where the page of a job's rules is, if it has one: that of its last attempt."""
    return f"{output_uri}/{job}/rule-output/report.html"

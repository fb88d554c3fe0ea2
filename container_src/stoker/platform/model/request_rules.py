"""The service's rules between the fields of CreateTrainingJob that need no state.

The service model knows each field alone (types, limits, patterns); what must hold between fields
is in AWS's documentation only. Each rule is a small generator of the mistakes it finds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from posixpath import normpath
from typing import Any

from stoker.contract.paths import ROOT_VARIABLE
from stoker.platform.model import faults
from stoker.platform.model.instances import choose_groups, find_preference_mistakes

MOST_HOSTS = 20  # the service's default quota
# The API's limit for a training job, 28 days.
_MOST_RUNTIME_SECONDS = 28 * 86_400
# The API's model has an integer here; these values are in its documentation only.
_PROFILER_INTERVALS = (100, 200, 500, 1_000, 5_000, 60_000)
# Refused by the service as explicit places of synced folders, except the defaults themselves.
_RESERVED_FOLDERS = ("/opt/ml", "/tmp", "/usr/local/nvidia")  # noqa: S108 - only compared
_SERVICE_FOLDERS = ("/opt/ml/input", "/opt/ml/model", "/opt/ml/output/data")
_DEFAULT_FOLDERS = {
    "CheckpointConfig": "/opt/ml/checkpoints",
    "DebugHookConfig": "/opt/ml/output/tensors",
    "TensorBoardOutputConfig": "/opt/ml/output/tensorboard",
    "ProfilerConfig": "/opt/ml/output/profiler",
}
_NOT_EMULATED = ("ServerlessJobConfig", "ModelPackageConfig")

Rule = Callable[[Mapping[str, Any]], Iterator[str]]


def require_rules(raw: Mapping[str, Any]) -> None:
    """Check a request that fits the service model.

    Raises:
        ApiFault: the request breaks one or more rules, or asks for more hosts than we start.
    """
    mistakes = find_mistakes(raw)
    if len(mistakes) == 1:
        raise faults.validation(mistakes[0])
    if mistakes:
        listed = "; ".join(mistakes)
        raise faults.validation(f"{len(mistakes)} validation errors detected: {listed}")
    _require_few_hosts(raw["ResourceConfig"])


def find_mistakes(raw: Mapping[str, Any]) -> list[str]:
    """What the service would not accept; the limits of this machine are not among it."""
    return [mistake for rule in _RULES for mistake in rule(raw)]


def _require_few_hosts(resources: Mapping[str, Any]) -> None:
    groups = choose_groups(resources)
    hosts = sum(group["InstanceCount"] for group in groups)
    if hosts > MOST_HOSTS:
        raise faults.limit_exceeded(
            f"The account-level service limit '{groups[0]['InstanceType']} for training job usage'"
            f" is {MOST_HOSTS} Instances, with current utilization of 0 Instances and a request"
            f" delta of {hosts} Instances. The local platform starts one container for each."
        )


def _emulated(raw: Mapping[str, Any]) -> Iterator[str]:
    for field in _NOT_EMULATED:
        if field in raw:
            yield f"{field} is not supported by the local platform. Leave it out."


def _algorithm(raw: Mapping[str, Any]) -> Iterator[str]:
    algorithm = raw.get("AlgorithmSpecification")
    if algorithm is None:
        yield "AlgorithmSpecification is required."
        return
    if "AlgorithmName" in algorithm and "TrainingImage" in algorithm:
        yield "You can't specify both AlgorithmName and TrainingImage."
    elif "AlgorithmName" in algorithm:
        yield "AlgorithmName is not supported by the local platform. Pass TrainingImage."
    elif not algorithm.get("TrainingImage"):
        yield "You must specify either AlgorithmName or TrainingImage."
    names = [metric["Name"] for metric in algorithm.get("MetricDefinitions", ())]
    for name in _repeated(names):
        yield f"MetricDefinitions must have unique names, but '{name}' is repeated."
    for metric in algorithm.get("MetricDefinitions", ()):
        yield from _metric(metric)


def _metric(metric: Mapping[str, str]) -> Iterator[str]:
    try:
        # As Python reads it; the service does not say which kind of expressions it takes.
        re.compile(metric["Regex"])
    except (re.error, RecursionError, OverflowError) as error:
        yield f"The regex of metric '{metric['Name']}' is invalid: {error}."


def _resources(raw: Mapping[str, Any]) -> Iterator[str]:
    resources = raw.get("ResourceConfig")
    if resources is None:
        yield "ResourceConfig is required."
        return
    for name in ("SelectedInstanceType", "SelectedInstanceCount"):
        if name in resources:
            yield f"{name} is returned by DescribeTrainingJob only."
    if "InstancePreferences" in resources:
        yield from find_preference_mistakes(raw)
    else:
        yield from _instances(resources)
    if resources.get("VolumeSizeInGB", 1) < 1:
        yield "VolumeSizeInGB must be at least 1."
    if resources.get("KeepAlivePeriodInSeconds") and raw.get("EnableManagedSpotTraining"):
        yield "KeepAlivePeriodInSeconds is not supported with EnableManagedSpotTraining."


def _instances(resources: Mapping[str, Any]) -> Iterator[str]:
    groups = resources.get("InstanceGroups")
    alone = [key for key in ("InstanceType", "InstanceCount") if key in resources]
    if groups and alone:
        yield f"InstanceGroups can't be specified together with {' and '.join(alone)}."
    if not groups and len(alone) < 2:
        yield (
            "ResourceConfig must have InstanceType and InstanceCount, or InstanceGroups, or"
            " InstancePreferences."
        )
    for name in _repeated([group["InstanceGroupName"] for group in groups or ()]):
        yield f"InstanceGroups must have unique names, but '{name}' is repeated."
    for group in groups or [resources]:
        if group.get("InstanceCount", 1) < 1:
            yield "InstanceCount must be at least 1."


def _stopping(raw: Mapping[str, Any]) -> Iterator[str]:
    stopping = raw.get("StoppingCondition", {})
    runtime = stopping.get("MaxRuntimeInSeconds", 86_400)
    wait = stopping.get("MaxWaitTimeInSeconds")
    if runtime > _MOST_RUNTIME_SECONDS:
        yield f"MaxRuntimeInSeconds must be at most {_MOST_RUNTIME_SECONDS}, but is {runtime}."
    if raw.get("EnableManagedSpotTraining", False):
        if wait is None or wait < runtime:
            yield (
                "Invalid MaxWaitTimeInSeconds. It must be present and be greater than or equal to"
                " MaxRuntimeInSeconds"
            )
    elif wait is not None:
        yield (
            "Invalid MaxWaitTimeInSeconds. It can be specified only when"
            " EnableManagedSpotTraining is true"
        )


def _channels(raw: Mapping[str, Any]) -> Iterator[str]:
    channels = raw.get("InputDataConfig", ())
    for name in _repeated([channel["ChannelName"] for channel in channels]):
        yield f"InputDataConfig must have unique channel names, but '{name}' is repeated."
    for channel in channels:
        # They become files and folders of the host: these two names are not of their own.
        if channel["ChannelName"] in (".", ".."):
            yield f"'{channel['ChannelName']}' is not a channel name."
        for mistake in _channel(channel, raw):
            yield f"Channel '{channel['ChannelName']}': {mistake}"


def _channel(channel: Mapping[str, Any], raw: Mapping[str, Any]) -> Iterator[str]:
    mode = channel.get("InputMode") or raw.get("AlgorithmSpecification", {}).get(
        "TrainingInputMode", "File"
    )
    source = channel["DataSource"]
    if len(source) != 1:
        yield "DataSource must have exactly one of S3DataSource and FileSystemDataSource."
    elif "S3DataSource" in source:
        yield from _s3_source(source["S3DataSource"], mode, raw)
    elif "FileSystemDataSource" in source:
        yield from _file_system(source["FileSystemDataSource"], mode, raw)
    else:
        yield "DatasetSource is not supported by the local platform. Pass an S3DataSource."


def _s3_source(source: Mapping[str, Any], mode: str, raw: Mapping[str, Any]) -> Iterator[str]:
    kind, attributes = source["S3DataType"], source.get("AttributeNames")
    if source["S3Uri"].startswith("file://"):
        yield from _folder(source["S3Uri"], kind, mode)
    else:
        yield from _s3_uri("S3Uri", source["S3Uri"])
    if kind == "Converse":
        yield "S3DataType Converse is not supported by the local platform."
    if kind == "AugmentedManifestFile" and mode != "Pipe":
        yield "AugmentedManifestFile can be used only if the channel's input mode is Pipe."
    if kind == "AugmentedManifestFile" and not attributes:
        yield "AttributeNames is required with AugmentedManifestFile."
    if kind != "AugmentedManifestFile" and attributes:
        yield "AttributeNames can be used only with AugmentedManifestFile."
    groups = {
        g["InstanceGroupName"] for g in raw.get("ResourceConfig", {}).get("InstanceGroups", ())
    }
    for name in source.get("InstanceGroupNames", ()):
        if name not in groups:
            yield f"InstanceGroupNames has '{name}', which is not one of InstanceGroups."


def _folder(uri: str, kind: str, mode: str) -> Iterator[str]:
    """A folder of this machine, which only the local platform takes."""
    if not _plain_path(uri.removeprefix("file://")):
        yield f"A file:// address must be an absolute path without '..', but is '{uri}'."
    if kind != "S3Prefix" or mode == "Pipe":
        yield (
            "file:// can be used only with S3DataType S3Prefix and the input modes File and "
            "FastFile. Upload the data to S3 for the others."
        )


def _file_system(source: Mapping[str, Any], mode: str, raw: Mapping[str, Any]) -> Iterator[str]:
    if mode != "File":
        yield "FileSystemDataSource can be used only if the channel's input mode is File."
    if "VpcConfig" not in raw:
        yield "FileSystemDataSource requires VpcConfig."
    if not _plain_path(source["DirectoryPath"]):
        yield "DirectoryPath must be an absolute path without '..'."


def _outputs(raw: Mapping[str, Any]) -> Iterator[str]:
    places = {
        "OutputDataConfig.S3OutputPath": raw["OutputDataConfig"]["S3OutputPath"],
        "CheckpointConfig.S3Uri": raw.get("CheckpointConfig", {}).get("S3Uri"),
    }
    for field in ("DebugHookConfig", "TensorBoardOutputConfig", "ProfilerConfig"):
        places[f"{field}.S3OutputPath"] = raw.get(field, {}).get("S3OutputPath")
    for field, uri in places.items():
        if uri is not None:
            yield from _s3_uri(field, uri)


def _local_paths(raw: Mapping[str, Any]) -> Iterator[str]:
    for field, default in _DEFAULT_FOLDERS.items():
        config = raw.get(field, {})
        path = config.get("ProfilingParameters", config).get("LocalPath")
        if path is None or normpath(path) == default:
            continue
        if not _plain_path(path) or not path.strip("/"):
            yield f"{field}.LocalPath must be an absolute path without '..', but is '{path}'."
        elif field in ("CheckpointConfig", "ProfilerConfig"):
            if _inside(path, _SERVICE_FOLDERS) or _inside("/opt/ml/output", (_plain(path),)):
                yield f"{field}.LocalPath '{path}' is used by SageMaker itself."
        elif _inside(path, _RESERVED_FOLDERS):
            reserved = ", ".join(_RESERVED_FOLDERS)
            yield f"{field}.LocalPath '{path}' must not be under {reserved}. Leave it out."


def _profiler(raw: Mapping[str, Any]) -> Iterator[str]:
    interval = raw.get("ProfilerConfig", {}).get("ProfilingIntervalInMilliseconds")
    if interval is not None and interval not in _PROFILER_INTERVALS:
        listed = ", ".join(map(str, _PROFILER_INTERVALS))
        yield f"ProfilingIntervalInMilliseconds must be one of {listed}, but is {interval}."


def _debugger_rules(raw: Mapping[str, Any]) -> Iterator[str]:
    names_of = [
        {rule["RuleConfigurationName"] for rule in raw.get(field, ())}
        for field in ("DebugRuleConfigurations", "ProfilerRuleConfigurations")
    ]
    for name in sorted(set.intersection(*names_of)):
        yield (
            f"DebugRuleConfigurations and ProfilerRuleConfigurations both have '{name}': their "
            "output would be in one folder. Choose another name."
        )
    for field in ("DebugRuleConfigurations", "ProfilerRuleConfigurations"):
        names = [rule["RuleConfigurationName"] for rule in raw.get(field, ())]
        for name in _repeated(names):
            yield f"{field} must have unique names, but '{name}' is repeated."
        for name in names:
            # It becomes a part of the keys of the rule's output, and objects are files here.
            if {"", ".", ".."} & set(name.split("/")) or "\0" in name:
                yield f"{field}: '{name}' is not a rule's name."
        for rule in raw.get(field, ()):
            if "S3OutputPath" in rule:
                yield from _s3_uri(f"{field}.S3OutputPath", rule["S3OutputPath"])


def _environment(raw: Mapping[str, Any]) -> Iterator[str]:
    if ROOT_VARIABLE in raw.get("Environment", {}):
        yield (
            f"Environment must not have {ROOT_VARIABLE}: it names the folder that stands for "
            "/opt/ml, which the platform chooses. Leave it out."
        )


def _tags(raw: Mapping[str, Any]) -> Iterator[str]:
    for key in _repeated([tag["Key"] for tag in raw.get("Tags", ())]):
        yield f"Tags must have unique keys, but '{key}' is repeated."
    for tag in raw.get("Tags", ()):
        if tag["Key"].lower().startswith("aws:"):
            yield f"Tag keys that begin with aws: are AWS's own, but '{tag['Key']}' is given."


_RULES: tuple[Rule, ...] = (
    *(_emulated, _algorithm, _resources, _stopping, _channels),
    *(_outputs, _local_paths, _profiler, _debugger_rules, _environment, _tags),
)


def _s3_uri(field: str, uri: str) -> Iterator[str]:
    if not re.fullmatch(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?", uri, re.DOTALL):
        yield f"{field} must be s3://<bucket>/<prefix> with a valid bucket name, but is '{uri}'."
    elif {".", ".."} & set(uri.removeprefix("s3://").split("/")):
        # Objects are files here: such a key would climb out of its bucket.
        yield f"{field} must have no '.' or '..' between slashes, but is '{uri}'."


def _plain_path(path: str) -> bool:
    return path.startswith("/") and ".." not in path.split("/") and "\0" not in path


def _inside(path: str, folders: tuple[str, ...]) -> bool:
    place = _plain(path)
    return any(place == folder or place.startswith(f"{folder}/") for folder in folders)


def _plain(path: str) -> str:
    return normpath(f"/{path.lstrip('/')}")  # POSIX lets `//` at the start be special


def _repeated(names: list[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})

"""The files of /opt/ml/input/config, as the service writes them for one host."""

from __future__ import annotations

import json
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from stoker.platform.data.channels import list_hosts
from stoker.platform.data.confined import Parts, write_file
from stoker.platform.data.failures import storing
from stoker.platform.model.processing_request import ProcessingRequest, make_processing_arn
from stoker.platform.model.request import ChannelSource, DebugHook, TrainingRequest

CONFIG: Parts = ("input", "config")
PROCESSING_CONFIG: Parts = ("config",)
_PROFILER_INTERVAL_MILLISECONDS = 500  # the service's default


def write_config_files(
    request: TrainingRequest, host: str, host_dir: Path, *, addresses: Mapping[str, str]
) -> None:
    """Write every file that the job's request asks for.

    Args:
        request: the job.
        host: which of its hosts.
        host_dir: what becomes the host's /opt/ml.
        addresses: of the hosts; on loopback the interface is named accordingly.

    Raises:
        DownloadFailed: the disk is full or cannot be written.
    """
    folder, files = CONFIG, make_config_files(request, host, addresses=addresses)
    if isinstance(request, ProcessingRequest):
        folder, files = PROCESSING_CONFIG, _make_processing_files(request, host, addresses)
    for name, content in files.items():
        with storing(name, host_dir), write_file(host_dir, (*folder, name)) as file:
            file.write(json.dumps(content).encode())


def make_config_files(
    request: TrainingRequest, host: str, *, addresses: Mapping[str, str]
) -> dict[str, Any]:
    """File name → content. What was not asked for has no file."""
    files: dict[str, Any] = {
        "hyperparameters.json": dict(request.hyperparameters),
        "inputdataconfig.json": {
            channel.name: _channel(channel)
            for channel in request.channels
            if host in list_hosts(request, channel)
        },
        "resourceconfig.json": _resources(request, host, addresses),
        # Seen on the service, and documented nowhere; so is metric-definition-regex.json below.
        "trainingjobconfig.json": dict(request.raw),
    }
    if request.checkpoint:
        files["checkpointconfig.json"] = {"LocalPath": request.checkpoint.local_path}
    if request.tensorboard:
        files["tensorboardoutputconfig.json"] = {"LocalPath": request.tensorboard.local_path}
    if request.debug_hook:
        files["debughookconfig.json"] = _debug_hook(request.debug_hook)
    if profiler := request.raw.get("ProfilerConfig"):
        files["profilerconfig.json"] = _profiler(profiler)
    if request.metric_definitions:
        files["metric-definition-regex.json"] = [
            {"Name": name, "Regex": regex} for name, regex in request.metric_definitions
        ]
    return files


def _make_processing_files(
    request: ProcessingRequest, host: str, addresses: Mapping[str, str]
) -> dict[str, Any]:
    arn = make_processing_arn(request.job_name)
    return {
        "processingjobconfig.json": {"ProcessingJobArn": arn, **request.raw},
        "resourceconfig.json": _resources(request, host, addresses),
    }


def _channel(channel: ChannelSource) -> dict[str, str]:
    settings: dict[str, str] = {
        "TrainingInputMode": channel.mode,
        "S3DistributionType": channel.distribution,
        "RecordWrapperType": channel.record_wrapper,
    }
    if channel.content_type is not None:
        settings["ContentType"] = channel.content_type
    return settings


def _resources(
    request: TrainingRequest, host: str, addresses: Mapping[str, str]
) -> dict[str, Any]:
    return {
        "current_host": host,
        "current_instance_type": request.instance_type(host),
        "current_group_name": request.group_of(host).name,
        "hosts": list(request.hosts),
        "instance_groups": [
            {
                "instance_group_name": group.name,
                "instance_type": group.instance_type,
                "hosts": list(group.hosts),
            }
            for group in request.groups
        ],
        "network_interface_name": _interface(addresses),
    }


def _interface(addresses: Mapping[str, str]) -> str:
    loopback = bool(addresses) and all(ip_address(a).is_loopback for a in addresses.values())
    return "lo" if loopback else "eth0"


def _debug_hook(hook: DebugHook) -> dict[str, Any]:
    content: dict[str, Any] = {"S3OutputPath": hook.uri, "LocalPath": hook.local_path}
    if hook.parameters:
        content["HookParameters"] = dict(hook.parameters)
    return {**content, "CollectionConfigurations": list(hook.collections)}


def _profiler(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Written for a disabled one, too: a running job must see that it was switched off."""
    return {
        "ProfilingIntervalInMilliseconds": _PROFILER_INTERVAL_MILLISECONDS,
        "DisableProfiler": False,
        **{key: value for key, value in asked.items() if key != "S3OutputPath"},
    }

"""CreateProcessingJob: a job that is carried out as a training job is, with other folders.

Its requests are read into a `TrainingRequest` whose channels are the inputs; what only training
has is empty. Its name in the store, on disk and in the engine has a prefix that no training job's
name can have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from posixpath import normpath
from typing import Any

from stoker.contract.cluster import DEFAULT_GROUP
from stoker.platform.model import faults
from stoker.platform.model.request import (
    DEFAULT_RUNTIME_SECONDS,
    ChannelSource,
    HostGroup,
    TrainingRequest,
    parse_request,
)
from stoker.platform.model.request_rules import MOST_HOSTS
from stoker.platform.model.root import ACCOUNT, REGION

PREFIX = "processing."
PROCESSING_DIR = "/opt/ml/processing"


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessingOutput:
    """A folder of the job that goes to S3."""

    name: str
    local_path: str
    uri: str
    is_continuous: bool
    """Uploaded while the job runs; else after it has ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessingRequest(TrainingRequest):
    """One processing job."""

    job_name: str
    """As the user knows it; `name` is that of the store."""

    outputs: tuple[ProcessingOutput, ...]

    def has_inside(self, channel: ChannelSource) -> bool:
        """Whether the folder of another input or output is in that of an input."""
        places = [*(c.local_path for c in self.channels), *(o.local_path for o in self.outputs)]
        return any(place.startswith(f"{channel.local_path}/") for place in places)


def make_key(name: str) -> str:
    """The name of a processing job in the store."""
    return f"{PREFIX}{name}"


def make_processing_arn(name: str) -> str:
    """Its ARN; the service writes the name in lower case."""
    return f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:processing-job/{name.lower()}"


def parse_job_request(raw: Mapping[str, Any]) -> TrainingRequest:
    """Read a request of either kind that was accepted before."""
    return parse_processing(raw) if "ProcessingJobName" in raw else parse_request(raw)


def read_processing(raw: Mapping[str, Any]) -> ProcessingRequest:
    """Read a request that fits the service model.

    Raises:
        ApiFault: it breaks a rule between fields; all broken ones are listed.
    """
    mistakes = [*_inputs(raw), *_outputs(raw), *_places(raw), *_resources(raw)]
    if mistakes:
        count = f"{len(mistakes)} validation errors detected: " if len(mistakes) > 1 else ""
        raise faults.validation(f"{count}{'; '.join(mistakes)}")
    request = parse_processing(raw)
    if len(request.hosts) > MOST_HOSTS:
        raise faults.limit_exceeded(
            f"The account-level service limit '{request.groups[0].instance_type} for processing "
            f"job usage' is {MOST_HOSTS} Instances, with current utilization of 0 Instances and a "
            f"request delta of {len(request.hosts)} Instances. The local platform starts one "
            "container for each."
        )
    return request


def parse_processing(raw: Mapping[str, Any]) -> ProcessingRequest:
    """Read a request that was accepted before."""
    app, network = raw["AppSpecification"], raw.get("NetworkConfig", {})
    group = _group(raw["ProcessingResources"]["ClusterConfig"])
    return ProcessingRequest(
        raw=raw,
        name=make_key(raw["ProcessingJobName"]),
        job_name=raw["ProcessingJobName"],
        image=app["ImageUri"],
        input_mode="File",
        entrypoint=tuple(app.get("ContainerEntrypoint", ())) or None,
        arguments=tuple(app.get("ContainerArguments", ())),
        hyperparameters={},
        environment=raw.get("Environment", {}),
        # The outer one of two folders first: it would remove what is in the inner one.
        channels=tuple(
            sorted((_channel(each) for each in _list_inputs(raw)), key=lambda c: c.local_path)
        ),
        outputs=tuple(_output(each) for each in _list_outputs(raw)),
        output_uri="",
        compression="NONE",
        groups=(group,),
        hosts=group.hosts,
        volume_gb=raw["ProcessingResources"]["ClusterConfig"]["VolumeSizeInGB"],
        max_runtime_seconds=raw.get("StoppingCondition", {}).get(
            "MaxRuntimeInSeconds", DEFAULT_RUNTIME_SECONDS
        ),
        max_wait_seconds=None,
        spot=False,
        retries=0,
        checkpoint=None,
        tensorboard=None,
        debug_hook=None,
        debug_rules=(),
        profiler_rules=(),
        profiler=None,
        metric_definitions=(),
        isolated=network.get("EnableNetworkIsolation", False),
        tags=tuple(raw.get("Tags", ())),
    )


def _group(cluster: Mapping[str, Any]) -> HostGroup:
    """Of several types that would do, the first: here all are this machine."""
    first = {**cluster, **(cluster.get("InstancePreferences") or [{}])[0]}
    numbers = range(1, first.get("InstanceCount", 1) + 1)
    return HostGroup(
        name=DEFAULT_GROUP,
        instance_type=first["InstanceType"],
        hosts=tuple(sorted(f"algo-{number}" for number in numbers)),
    )


def _list_inputs(raw: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Without those that the program itself brings."""
    return [each for each in raw.get("ProcessingInputs", ()) if not each.get("AppManaged", False)]


def _list_outputs(raw: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    outputs = raw.get("ProcessingOutputConfig", {}).get("Outputs", ())
    return [each for each in outputs if not each.get("AppManaged", False)]


def _channel(given: Mapping[str, Any]) -> ChannelSource:
    s3 = given["S3Input"]
    return ChannelSource(
        name=given["InputName"],
        mode="File",
        content_type=None,
        record_wrapper="None",
        compression="None",
        shuffle_seed=None,
        distribution=s3.get("S3DataDistributionType", "FullyReplicated"),
        data_type=s3["S3DataType"],
        uri=s3["S3Uri"],
        file_system=None,
        attribute_names=(),
        instance_groups=(),
        local_path=normpath(s3["LocalPath"]),
    )


def _output(given: Mapping[str, Any]) -> ProcessingOutput:
    s3 = given["S3Output"]
    return ProcessingOutput(
        name=given["OutputName"],
        local_path=normpath(s3["LocalPath"]),
        uri=s3["S3Uri"].rstrip("/"),
        is_continuous=s3["S3UploadMode"] == "Continuous",
    )


def _inputs(raw: Mapping[str, Any]) -> Iterator[str]:
    yield from _repeated(
        "ProcessingInputs", [i["InputName"] for i in raw.get("ProcessingInputs", ())]
    )
    for given in _list_inputs(raw):
        name, s3 = given["InputName"], given.get("S3Input")
        if "DatasetDefinition" in given:
            yield (
                f"Input '{name}': DatasetDefinition (Athena, Redshift) is not supported by the "
                "local platform. Export the data to S3 and pass S3Input."
            )
        elif s3 is None:
            yield f"Input '{name}' needs S3Input."
        else:
            yield from _local_path(f"Input '{name}'", s3)
            if s3.get("S3InputMode", "File") != "File":
                mode = s3["S3InputMode"]
                yield f"Input '{name}': S3InputMode {mode} is not supported. Use File."
            if s3.get("S3CompressionType", "None") != "None":
                yield f"Input '{name}': S3CompressionType Gzip needs S3InputMode Pipe. Use None."


def _outputs(raw: Mapping[str, Any]) -> Iterator[str]:
    outputs = raw.get("ProcessingOutputConfig", {}).get("Outputs", ())
    yield from _repeated("Outputs", [each["OutputName"] for each in outputs])
    for given in _list_outputs(raw):
        name, s3 = given["OutputName"], given.get("S3Output")
        if "FeatureStoreOutput" in given:
            yield (
                f"Output '{name}': FeatureStoreOutput is not supported by the local platform. "
                "Pass S3Output."
            )
        elif s3 is None:
            yield f"Output '{name}' needs S3Output."
        else:
            yield from _local_path(f"Output '{name}'", s3)
            if not s3["S3Uri"].startswith("s3://"):
                yield f"Output '{name}': {s3['S3Uri']} is not an address in S3 (s3://…)."


def _local_path(what: str, s3: Mapping[str, Any]) -> Iterator[str]:
    path = s3.get("LocalPath")
    if path is None:
        yield f"{what}: LocalPath is required unless AppManaged is true."
    elif not normpath(path).startswith(f"{PROCESSING_DIR}/"):
        yield f"{what}: LocalPath '{path}' must be below {PROCESSING_DIR}/."


def _places(raw: Mapping[str, Any]) -> Iterator[str]:
    """Two folders of a job may not be one another's: what is input would be uploaded."""
    parts = [
        *(("Input", i["InputName"], i.get("S3Input", {})) for i in _list_inputs(raw)),
        *(("Output", o["OutputName"], o.get("S3Output", {})) for o in _list_outputs(raw)),
    ]
    seen: dict[str, str] = {}
    for kind, name, s3 in parts:
        path = normpath(s3.get("LocalPath") or "")
        if path in seen:
            yield f"{kind} '{name}': LocalPath {path} is that of {seen[path]}."
        elif path != ".":
            seen[path] = f"{kind.lower()} '{name}'"


def _resources(raw: Mapping[str, Any]) -> Iterator[str]:
    cluster = raw["ProcessingResources"]["ClusterConfig"]
    for given in cluster.get("InstancePreferences") or [cluster]:
        if "InstanceType" not in given:
            yield "ClusterConfig needs InstanceType, or InstancePreferences."


def _repeated(what: str, names: list[str]) -> Iterator[str]:
    for name, count in Counter(names).items():
        if count > 1:
            yield f"{what} must have unique names, but '{name}' is repeated."

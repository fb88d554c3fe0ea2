"""What each host of a job gets: launch, input, pipe channels."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from stoker.bus.run_file import METRICS_FOLDER, METRICS_VARIABLE
from stoker.bus.stop import PLATFORM_VARIABLE
from stoker.contract.debugger import carries_rules, split_rules
from stoker.contract.paths import OPT_ML
from stoker.machine.failures import EngineLost
from stoker.platform.data.channels import prepare_channels
from stoker.platform.data.config_files import write_config_files
from stoker.platform.data.pipes import Pipes
from stoker.platform.engines.engine import Launch, Network, Standby, in_opt_ml
from stoker.platform.jobs.context import JobContext, say_once
from stoker.platform.jobs.describe import make_arn
from stoker.platform.jobs.kept_folders import (
    list_synced_folders,
    make_mounts,
    make_sync,
    remove_end_markers,
)
from stoker.platform.jobs.warm_pools import CACHE_DIR, make_cache_mount
from stoker.platform.model.mount import Mount
from stoker.platform.model.processing_request import ProcessingRequest
from stoker.platform.model.request import TrainingRequest
from stoker.platform.model.root import REGION

CACHE_VARIABLE = "SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY"
THREADS_VARIABLE = "OMP_NUM_THREADS"
_SMALL_INSTANCE_CPUS = 2  # medium and large
_PIECE_CHARACTERS = 32_768  # a line of Docker's --env-file holds twice as much


def run_name(job: str, host: str, attempt: int) -> str:
    """The engine's name for one run of one host."""
    return f"{job}-{host}-{attempt}"


def make_launch(
    request: TrainingRequest,
    host: str,
    *,
    attempt: int,
    context: JobContext,
    network: Network,
    mounts: tuple[Mount, ...],
    pool: str = "",
    standby: Standby | None = None,
) -> Launch:
    """One host of one attempt."""
    return Launch(
        name=run_name(request.name, host, attempt),
        job=request.name,
        host=host,
        attempt=attempt,
        image=request.image,
        entrypoint=request.entrypoint,
        arguments=request.arguments or (),
        is_training=not isinstance(request, ProcessingRequest),
        environment={
            # In rising order: the request's own variables win over the platform's; only the rules
            # that are described are evaluated.
            **_platform_environment(request, context),
            **({CACHE_VARIABLE: CACHE_DIR} if pool else {}),
            THREADS_VARIABLE: str(count_threads(request, host, context)),
            **({} if request.isolated else context.make_variables(request, host)),
            **_own_environment(request),
            **(make_rules_variables(request) if host == request.hosts[0] else {}),
        },
        mounts=mounts,
        host_dir=context.root.host_dir(request.name, host),
        network=network,
        address=network.addresses.get(host),
        peers=network.addresses,
        isolated=request.isolated,
        standby=standby,
    )


def count_threads(request: TrainingRequest, host: str, context: JobContext) -> int:
    """As many as the instance type has, but not more than the host's share of this machine.

    Else every job starts a thread per CPU, and jobs side by side wait for each other's.
    """
    share = context.cpus // (context.slots * len(request.hosts))
    size = re.search(r"\.(\d*)xlarge$", request.instance_type(host))
    cpus = 4 * int(size[1] or 1) if size else _SMALL_INSTANCE_CPUS
    return max(1, min(share, cpus))


def show_setting(request: TrainingRequest, context: JobContext) -> str:
    """For the status: which image runs in place of one of AWS, and the threads of each host."""
    explained = context.engine.explain_image(request.image)[:1]
    images = [f"{line[:1].upper()}{line[1:]}." for line in explained]
    return " ".join([*images, _share(request, context)])


def _share(request: TrainingRequest, context: JobContext) -> str:
    if THREADS_VARIABLE in request.environment:
        return f"{THREADS_VARIABLE}={request.environment[THREADS_VARIABLE]}, as requested."
    threads = count_threads(request, request.hosts[0], context)
    return (
        f"{THREADS_VARIABLE}={threads} on each host: {context.cpus} CPUs are shared by "
        f"{context.slots} slot{'s' if context.slots > 1 else ''}."
    )


def make_rules_variables(request: TrainingRequest) -> dict[str, str]:
    """The rules of a request as the leader's evaluator reads them: the API's shape, as JSON."""
    if not request.rules:
        return {}
    rules = [
        {"RuleConfigurationName": rule.name, "RuleParameters": dict(rule.parameters)}
        for rule in request.rules
    ]
    return split_rules(json.dumps(rules), limit_characters=_PIECE_CHARACTERS)


def _own_environment(request: TrainingRequest) -> dict[str, str]:
    """What the request sets. Of two lists of rules, the one that is described is evaluated."""
    if not request.rules:
        return dict(request.environment)
    return {k: v for k, v in request.environment.items() if not carries_rules(k)}


def _platform_environment(request: TrainingRequest, context: JobContext) -> Mapping[str, str]:
    job = {
        **_name_job(request),
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        PLATFORM_VARIABLE: "1",
    }
    if request.isolated:  # as in the service: no credentials, as there is no network
        return job
    return {
        **job,
        "AWS_ENDPOINT_URL_S3": f"http://{context.engine.s3_host()}:{context.s3_port}",
        "AWS_ACCESS_KEY_ID": context.credentials.access_key,
        "AWS_SECRET_ACCESS_KEY": context.credentials.secret_key,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def _name_job(request: TrainingRequest) -> Mapping[str, str]:
    if isinstance(request, ProcessingRequest):  # it has its name in processingjobconfig.json
        return {"PYTHONUNBUFFERED": "1"}  # Stoker's launcher does not run in it
    return {
        "TRAINING_JOB_NAME": request.name,
        "TRAINING_JOB_ARN": make_arn(request.name),
        METRICS_VARIABLE: f"{OPT_ML}/{METRICS_FOLDER}",
    }


_FOLDERS = ("input/config", "input/data", "model", "output/data", "code", METRICS_FOLDER)
_PROCESSING_FOLDERS = ("config", "processing", "output")


def prepare_hosts(
    context: JobContext,
    request: TrainingRequest,
    cancelled: threading.Event,
    *,
    show: Callable[[str], object],
    pool: str = "",
) -> dict[str, list[list[Any]]]:
    """Fill the folders of all hosts; done again, it gives the same.

    Args:
        context: the platform's parts.
        request: the job.
        cancelled: ends it early.
        show: gets a line from time to time that says how far the downloads have come.
        pool: the warm pool whose cache the hosts get.

    Returns:
        Host → [source, target, read_only, *layers] of every mount except /opt/ml, as the store
        keeps them.

    Raises:
        DownloadFailed: something is not there, or the disk is full.
        TransferCancelled: the event was set.
    """
    network = context.engine.make_network(request.name, request.hosts, isolated=request.isolated)
    # A reader must not take the end of the attempt before for that of the job.
    remove_end_markers(request, context.storage)
    mounts = {}
    for host in request.hosts:
        found = [
            *_fill_folder(context, request, host, network.addresses, cancelled, show),
            *make_mounts(context.root, request, host),
            *([make_cache_mount(context.root, pool, host)] if pool else ()),
        ]
        mounts[host] = [
            [str(mount.source), mount.target, mount.read_only, *map(str, mount.layers)]
            for mount in found
        ]
    return mounts


def _fill_folder(
    context: JobContext,
    request: TrainingRequest,
    host: str,
    addresses: Mapping[str, str],
    cancelled: threading.Event,
    show: Callable[[str], object],
) -> tuple[Mount, ...]:
    """What becomes /opt/ml of one host; returns the mounts of its channels."""
    folder = context.root.host_dir(request.name, host)
    for part in _PROCESSING_FOLDERS if isinstance(request, ProcessingRequest) else _FOLDERS:
        (folder / part).mkdir(parents=True, exist_ok=True)
    mounts = prepare_channels(
        request,
        host,
        context.storage,
        folder,
        cancelled=cancelled,
        show=show,
        layers_refused=context.engine.layers_refused,
        say=partial(say_once, context.streams, request),
    )
    for output in request.outputs if isinstance(request, ProcessingRequest) else ():
        # After the inputs: one of them may be in the folder above, which is made afresh.
        (folder / (in_opt_ml(output.local_path) or "")).mkdir(parents=True, exist_ok=True)
    write_config_files(request, host, folder, addresses=addresses)
    for kept in list_synced_folders(request):
        if kept.checkpoints:
            sync = make_sync(context.root, request, host, kept, context.storage)
            sync.restore(cancelled=cancelled, show=show)
    return mounts


class PipeChannels:
    """Feeds the FIFOs while the hosts run; nothing to do without Pipe channels."""

    def __init__(
        self, request: TrainingRequest, context: JobContext, wake: threading.Event
    ) -> None:
        """Args: wake: set when a pipe ends too early."""
        self._channels = [c.name for c in request.channels if c.mode == "Pipe"]
        self._pipes = [
            Pipes(
                request,
                host,
                context.storage,
                context.root.host_dir(request.name, host),
                on_failure=wake.set,
            )
            for host in (request.hosts if self._channels else ())
        ]

    def start(self, find_adopted: Callable[[], Collection[str]]) -> None:
        """Begin to feed.

        Args:
            find_adopted: lists the hosts that an earlier server started; the engine is asked.

        Raises:
            EngineLost: the hosts run already: what they have read of their pipes is unknown.
        """
        if self._channels and find_adopted():
            raise EngineLost(
                f"the server ended while it fed the Pipe channels {', '.join(self._channels)}: "
                "the job would have seen only a part of its data",
                fix="submit the job again; with RetryStrategy this happens by itself",
            )
        for pipes in self._pipes:
            pipes.start()

    def stop(self) -> None:
        """Remove the FIFOs."""
        for pipes in self._pipes:
            pipes.stop()

    def require_whole(self) -> None:
        """Raises DownloadFailed if a pipe ended too early: the job saw a part of its data."""
        for pipes in self._pipes:
            if pipes.failure is not None:
                raise pipes.failure

"""The platform's server: one process that composes root, engine, S3, logs, jobs and the API."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from stoker.machine.certificates import find_bundle
from stoker.machine.docker import find_client, require_engine
from stoker.machine.environment import read_environment
from stoker.machine.failures import EngineMissing, UsageRefused
from stoker.platform.api.all_services import make_services, restrict
from stoker.platform.api.app import make_app
from stoker.platform.api.connections import (
    Connections,
    leave_out_malformed_requests,
    serving,
)
from stoker.platform.api.service import Service
from stoker.platform.data.log_streams import LogStreams
from stoker.platform.data.storage import Storage
from stoker.platform.engines.docker import DockerEngine
from stoker.platform.engines.engine import Engine
from stoker.platform.engines.process import ProcessEngine
from stoker.platform.jobs.context import JobContext
from stoker.platform.jobs.series import MetricSeries
from stoker.platform.jobs.store import Store
from stoker.platform.jobs.supervisor import JobSupervisor
from stoker.platform.model.ports import choose_port, is_free, remember_port
from stoker.platform.model.root import (
    Root,
    ServerInfo,
    open_root,
    read_credentials,
    remove_server_info,
    take_lock,
    write_server_info,
)
from stoker.platform.s3.process import LOOPBACK, S3Server
from stoker.platform.tracking.job_sources import list_sources
from stoker.platform.tracking.job_variables import make_variables
from stoker.platform.tracking.tracking import Tracking
from stoker.platform.tuning.store import TuningStore
from stoker.platform.tuning.supervisor import TuningSupervisor

_MOST_FILES = 65_536  # connections, pipes and logs of jobs are open files
_S3_PATIENCE_SECONDS = 60.0
"""Far longer than the S3 server, if it was killed, needs to be back."""

_ENDINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerSettings:
    """How a server was started."""

    folder: Path
    engine: Literal["auto", "docker", "process"]
    port: int
    """0: the last one, or any that is free."""

    slots: int
    """How many jobs run side by side."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Parts:
    root: Root
    engine: Engine
    s3: S3Server
    services: tuple[Service, ...]
    container_services: tuple[Service, ...]


def serve(settings: ServerSettings) -> None:
    """Serve until a signal says to end; running jobs continue without the server.

    Raises:
        UsageRefused: another server has this root, or another program the port.
        HostError: a part cannot be started.
    """
    _allow_many_connections()
    root = open_root(settings.folder)
    with _locked(root):
        engine = choose_engine(settings.engine, root, environment=read_environment())
        # Loopback for us; the other address only if containers need it.
        addresses = tuple(dict.fromkeys((LOOPBACK, engine.s3_host())))
        port = _choose_api_port(root, settings.port, addresses)
        with _running_parts(root, settings, engine, port) as parts:
            asyncio.run(_answer_requests(parts, addresses, port))


@contextmanager
def _locked(root: Root) -> Iterator[None]:
    lock = take_lock(root)
    # Left by a killed server: this one is not ready yet.
    remove_server_info(root)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _running_parts(
    root: Root, settings: ServerSettings, engine: Engine, api_port: int
) -> Iterator[_Parts]:
    with ExitStack() as ending:
        # Loopback for us and the proxy.
        addresses = tuple(dict.fromkeys((LOOPBACK, engine.s3_host())))
        s3 = S3Server.start(root, addresses)
        ending.callback(s3.stop)
        series = MetricSeries(root.metrics_database)
        ending.callback(series.close)
        context = _make_context(root, settings, engine, s3, series)
        store = Store(root.database)
        ending.callback(store.close)
        ending.callback(engine.close)
        tuning_store = TuningStore(root.database)
        ending.callback(tuning_store.close)
        tracking = Tracking(context, list_sources(context, store, tuning_store))
        ending.callback(tracking.close)
        endpoint = f"http://{engine.s3_host()}:{api_port}"
        variables = partial(make_variables, tracking.recorder, context.credentials, endpoint)
        context = replace(context, make_variables=variables)
        supervisor = JobSupervisor(context, store)
        ending.callback(supervisor.close)
        # Before the API is open: a request must not see a job that no worker has yet.
        supervisor.adopt()
        tuning = TuningSupervisor(context, store, tuning_store, supervisor)
        ending.callback(tuning.close)
        tuning.adopt()
        tracking.start()
        services = make_services(
            context, store, supervisor, tuning_store=tuning_store, tuning=tuning, tracking=tracking
        )
        yield _Parts(
            root=root,
            engine=engine,
            s3=s3,
            services=services,
            container_services=tuple(map(restrict, services)),
        )


def _make_context(
    root: Root, settings: ServerSettings, engine: Engine, s3: S3Server, series: MetricSeries
) -> JobContext:
    credentials = read_credentials(root)
    return JobContext(
        root=root,
        engine=engine,
        storage=Storage(
            f"http://{s3.address}",
            credentials,
            folder=root.s3_dir,
            patience_seconds=_S3_PATIENCE_SECONDS,
        ),
        streams=LogStreams(root),
        series=series,
        credentials=credentials,
        s3_port=s3.port,
        slots=settings.slots,
        cpus=len(os.sched_getaffinity(0)),
        environment=read_environment(),
    )


async def _answer_requests(parts: _Parts, addresses: tuple[str, ...], port: int) -> None:
    ended = asyncio.Event()
    for number in _ENDINGS:
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    connections = Connections()
    leave_out_malformed_requests()
    try:
        async with AsyncExitStack() as listening:
            for address in addresses:
                is_ours = address == LOOPBACK
                app = make_app(
                    credentials=read_credentials(parts.root),
                    services=parts.services if is_ours else parts.container_services,
                    s3_address=parts.s3.address,
                    connections=connections,
                )
                served = serving(app, connections, host=address, port=port)
                await listening.enter_async_context(served)
            _announce(parts, port)
            await ended.wait()
            remove_server_info(parts.root)
    finally:
        remove_server_info(parts.root)


def _announce(parts: _Parts, port: int) -> None:
    host = parts.engine.s3_host()
    server = ServerInfo(
        pid=os.getpid(),
        endpoint=f"http://{LOOPBACK}:{port}",
        engine=parts.engine.name,
        reason=parts.engine.reason,
        s3_port=parts.s3.port,
        started=time.time(),
        container_endpoint=f"http://{host}:{port}" if host != LOOPBACK else "",
    )
    remember_port(parts.root, "api", port)
    write_server_info(parts.root, server)
    print(f"engine    {server.engine} ({server.reason})", flush=True)
    print(f"endpoint  {server.endpoint}", flush=True)


def _choose_api_port(root: Root, asked: int, addresses: tuple[str, ...]) -> int:
    if not asked:
        return choose_port(root, "api", addresses)
    if not is_free(asked, addresses):
        raise UsageRefused(
            f"port {asked} of {' or '.join(addresses)} is taken by another program",
            fix="pass another --port, or 0 for any that is free",
        )
    return asked


def _allow_many_connections() -> None:
    """A flood of connections must not use up the files that jobs need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


Asked = Literal["auto", "docker", "process"]


def choose_engine(asked: Asked, root: Root, *, environment: Mapping[str, str]) -> Engine:
    """Docker where it answers; else processes, which `reason` says.

    Args:
        asked: what the user wants; "auto" leaves the choice.
        root: whose jobs are run.
        environment: that of the server; processes inherit PATH, HOME and the like.

    Raises:
        EngineMissing: Docker was asked for and none answers, or there is no engine at all.
    """
    if asked == "process":
        return _processes(root, environment, reason="as asked")
    try:
        client = find_client()
        version = require_engine(client)
    except EngineMissing as error:
        if asked == "docker":
            raise
        return _processes(root, environment, reason=f"no container: {error.message}")
    return DockerEngine(
        root,
        client=[client],
        reason=f"Docker {version} answers",
        certificates=find_bundle(environment),
    )


def _processes(root: Root, environment: Mapping[str, str], *, reason: str) -> ProcessEngine:
    if sys.platform != "linux":
        raise EngineMissing(
            f"jobs as processes need Linux, but this is {sys.platform}",
            fix="install and start Docker, then --engine docker",
        )
    return ProcessEngine(root, reason=reason, environment=environment)

"""How many processes, on which hosts, started by whom."""

from __future__ import annotations

import os
import sys

from stoker.contract.cluster import MASTER_PORT
from stoker.contract.files import read_object
from stoker.contract.hyperparameters import is_on
from stoker.contract.quick_json import dumps
from stoker.contract.record import Record
from stoker.errors import ConfigInvalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Literal

    from stoker.contract.job import Job
    from stoker.runtime.program import Program

TORCHRUN_SHUTDOWN_SECONDS = 105
"""torchrun kills its workers 30 s after SIGTERM unless told otherwise; SageMaker gives 120."""

DRIVERS_CHANNEL = "sm_drivers"
_TORCHRUN_KEYS = ("sagemaker_torch_distributed_enabled", "sagemaker_pytorch_ddp_enabled")
_MIRRORED_KEY = "sagemaker_multi_worker_mirrored_strategy_enabled"
_MIRRORED_PORT = 8890  # the toolkit's
_TORCHRUN_FIX = 'use distribution={"torch_distributed": {"enabled": True}}'
_UNSUPPORTED = {
    # SDK v2 sends one for the other.
    "sagemaker_distributed_dataparallel_enabled": (
        "smdistributed.dataparallel or pytorchddp",
        _TORCHRUN_FIX,
    ),
    "sagemaker_pytorch_xla_multi_worker_enabled": ("torch_xla", _TORCHRUN_FIX),
    # The stock toolkit started servers of TensorFlow 1's estimators, which are gone.
    "sagemaker_parameter_server_enabled": (
        "parameter servers",
        'use distribution={"multi_worker_mirrored_strategy": {"enabled": True}}, or one host',
    ),
}


class Distribution(Record):
    """The launcher of the user's program, and its share of the cluster."""

    launcher: Literal["python", "torchrun", "toolkit"]
    hosts: tuple[str, ...]
    node_rank: int = 0
    processes_per_host: int = 1


def choose_distribution(job: Job) -> Distribution:
    """Reads the `sagemaker_*_enabled` hyperparameters, as the SDKs write them.

    Raises:
        ConfigInvalid: a distribution this image has no launcher for.
    """
    framework = job.hyperparameters.framework()
    here = job.cluster.current_host
    hosts = job.distribution_hosts
    if job.environ.get("STOKER_LAUNCHER") == "toolkit" or job.environ.get(
        "SAGEMAKER_TRAINING_MODULE"
    ):
        return Distribution(launcher="toolkit", hosts=job.cluster.hosts)
    if of_driver := _read_driver(job):
        return _follow_driver(job, of_driver)
    _check_groups(job)
    # pt-toolkit too launches only the groups of the distribution; the other hosts run the script.
    if here not in hosts or not job.distribution_groups:
        return Distribution(launcher="python", hosts=job.cluster.hosts)
    # Before torchrun, as in pt-toolkit, where both are on.
    if is_on(framework.get("sagemaker_mpi_enabled")):
        _require_mpirun(job)
        return Distribution(launcher="toolkit", hosts=hosts)
    if any(is_on(framework.get(key)) for key in _TORCHRUN_KEYS):
        return Distribution(
            launcher="torchrun",
            hosts=hosts,
            node_rank=hosts.index(here),
            processes_per_host=_processes(job),
        )
    for key, (name, fix) in _UNSUPPORTED.items():
        # A job of one host never had parameter servers, whatever it asked for.
        is_needed = key != "sagemaker_parameter_server_enabled" or len(hosts) > 1
        if is_needed and is_on(framework.get(key)):
            raise ConfigInvalid(
                f"the job asks for {name}, which this image does not have", fix=fix
            )
    return Distribution(launcher="python", hosts=job.cluster.hosts)


def _read_driver(job: Job) -> Mapping[str, Any]:
    """The fields of SDK v3's `distributed=` in a trial; empty if it was not given.

    SDK v3's drivers read them from their channel. A tuning job cannot name an entrypoint, so they
    do not run there, and the channel is all that is left of `distributed=`. The file does not name
    the class, but only MPI has the field `mpi_additional_options`.
    """
    channel = job.channels.by_name.get(DRIVERS_CHANNEL)
    return read_object(f"{channel.path}/distributed.json") if channel else {}


def _follow_driver(job: Job, settings: Mapping[str, Any]) -> Distribution:
    hosts = job.cluster.hosts
    if "mpi_additional_options" in settings:
        _require_mpirun(job)
        return Distribution(launcher="toolkit", hosts=hosts)
    asked = settings.get("process_count_per_node")
    return Distribution(
        launcher="torchrun",
        hosts=hosts,
        node_rank=hosts.index(job.cluster.current_host),
        processes_per_host=_processes(job, None if asked is None else str(asked)),
    )


def _check_groups(job: Job) -> None:
    known = [group.name for group in job.cluster.groups]
    unknown = [name for name in job.distribution_groups if known and name not in known]
    if unknown:
        raise ConfigInvalid(
            f"the distribution names instance group {unknown[0]!r}, but there are: "
            f"{', '.join(known)}",
            fix="name a group of the job in distribution={…: {'instance_groups': [...]}}",
        )


def make_torchrun(distribution: Distribution, program: Program) -> list[str]:
    """torchrun's command line up to the user's arguments."""
    argv = [sys.executable, "-m", "torch.distributed.run"]
    if len(distribution.hosts) == 1:
        # A free port, as jobs may share this machine; and no look-up of the host's own name, which
        # under network isolation never resolves and would hang the rendezvous.
        argv += ["--standalone", "--local-addr", "127.0.0.1"]
    else:
        # Fixed hosts and no rendezvous, as the stock launchers: a job's hosts never change.
        argv += ["--nnodes", str(len(distribution.hosts))]
        argv += ["--node-rank", str(distribution.node_rank)]
        argv += ["--master-addr", distribution.hosts[0], "--master-port", str(MASTER_PORT)]
    argv += ["--nproc-per-node", str(distribution.processes_per_host)]
    if program.kind == "script":
        return [*argv, program.target]
    if program.kind == "module":
        return [*argv, "-m", program.target]
    return [*argv, "--no-python", *program.interpreter, f"./{program.target}"]


def make_network_environment(job: Job, distribution: Distribution) -> dict[str, str]:
    """Defaults for NCCL, gloo, EFA and TensorFlow. The user's own values win over each of them."""
    defaults = {
        "MASTER_ADDR": job.leader,
        "MASTER_PORT": str(MASTER_PORT),
    }
    if distribution.launcher == "torchrun":
        share = max(1, job.hardware.cpus // distribution.processes_per_host)
        defaults["OMP_NUM_THREADS"] = str(share)  # torchrun would say 1
        defaults["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] = str(TORCHRUN_SHUTDOWN_SECONDS)
    if is_on(job.hyperparameters.framework().get(_MIRRORED_KEY)):
        defaults |= _make_tf_config(job)
    interface = job.cluster.network_interface
    # Local mode names one that does not exist (ethwe): NCCL and gloo would fail on it.
    if len(distribution.hosts) > 1 and interface in job.hardware.interfaces:
        defaults["NCCL_SOCKET_IFNAME"] = interface
        defaults["GLOO_SOCKET_IFNAME"] = interface
        defaults["NCCL_DEBUG"] = "WARN"
    if job.hardware.has_efa:
        # The last one lets a process with registered memory fork, as a DataLoader does.
        defaults["FI_PROVIDER"] = "efa"
        defaults["FI_EFA_USE_DEVICE_RDMA"] = "1"
        defaults["RDMAV_FORK_SAFE"] = "1"
    return {name: text for name, text in defaults.items() if name not in job.environ}


def _make_tf_config(job: Job) -> dict[str, str]:
    """What MultiWorkerMirroredStrategy reads, as the stock TensorFlow toolkit writes it."""
    hosts, here = job.distribution_hosts, job.cluster.current_host
    if here not in hosts:
        return {}
    config = {
        "cluster": {"worker": [f"{host}:{_MIRRORED_PORT}" for host in hosts]},
        "environment": "cloud",
        "task": {"index": hosts.index(here), "type": "worker"},
    }
    return {"TF_CONFIG": dumps(config)}


def _processes(job: Job, of_driver: str | None = None) -> int:
    key = "sagemaker_mpi_num_of_processes_per_host"
    asked = job.hyperparameters.setting(key)
    if asked is None and of_driver is not None:
        key, asked = "process_count_per_node of sm_drivers/distributed.json", of_driver
    if asked is None:
        return job.hardware.gpus or job.hardware.neurons or 1
    if not (asked.isascii() and asked.isdigit() and len(asked) < 5 and int(asked) > 0):
        raise ConfigInvalid(f"{key} is {asked!r:.80}", fix="use a whole number from 1 to 9999")
    return int(asked)


def _require_mpirun(job: Job) -> None:
    folders = job.environ.get("PATH", os.defpath).split(os.pathsep)
    if not any(os.access(os.path.join(folder, "mpirun"), os.X_OK) for folder in folders):
        raise ConfigInvalid(
            "the job asks for MPI, but there is no mpirun in this image",
            fix='use distribution={"torch_distributed": {"enabled": True}}, or build an image '
            "FROM this one with openmpi-bin, openssh-server and mpi4py",
        )

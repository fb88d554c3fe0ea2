"""The `SM_*` variables: the union of the stock toolkit's and the SDK v3 drivers', and ours."""

from __future__ import annotations

from stoker.contract.cluster import MASTER_PORT
from stoker.contract.hyperparameters import make_arguments
from stoker.contract.quick_json import dumps
from stoker.errors import ConfigInvalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from stoker.contract.job import Job

# The kernel refuses a single exec string of 128 KiB or more (MAX_ARG_STRLEN).
LONGEST_STRING_BYTES = 128 * 1024 - 1
# And everything together beyond a quarter of the usual stack of 8 MiB; pointers count as well.
_MOST_BYTES = 2 * 1024 * 1024 - 64 * 1024


def make_environment(job: Job, *, entry_point: str, code_dir: str) -> dict[str, str]:
    """All `SM_*` variables (and the toolkit's other ones) of one job."""
    values = job.hyperparameters.values()
    fields: dict[str, Any] = {
        **_folders(job),
        **_machines(job),
        "channels": sorted(job.channels.by_name),
        "input_data_config": job.channels.raw,
        "resource_config": job.cluster.raw,
        "hps": values,
        "user_args": make_arguments(values),
        "framework_params": job.hyperparameters.framework(),
        "framework_module": job.environ.get("SAGEMAKER_TRAINING_MODULE"),
        "user_entry_point": entry_point,
        "entry_script": entry_point,
        "module_name": entry_point.removesuffix(".py"),
        "module_dir": job.hyperparameters.setting("sagemaker_submit_directory") or code_dir,
        "source_dir": code_dir,
        "log_level": job.log_level,
    }
    # As the toolkit: in SM_TRAINING_ENV always, as a variable of its own on UltraServers only.
    if job.cluster.topology:
        fields["topology"] = job.cluster.topology
    # After all others, which it repeats.
    fields["training_env"] = _training_env(job, fields)
    variables = {f"SM_{name.upper()}": _encode(value) for name, value in fields.items()}
    variables |= _both_spellings("SM_CHANNEL_", {c.name: c.path for c in job.channels})
    variables |= _both_spellings("SM_HP_", values)
    # The toolkit's three names without the prefix. The last one is empty where no SDK sent it.
    variables["CURRENT_HOST"] = job.cluster.current_host
    variables["SAGEMAKER_REGION"] = job.region
    variables["SAGEMAKER_JOB_NAME"] = job.hyperparameters.setting("sagemaker_job_name") or ""
    return variables


def drop_oversized(
    variables: dict[str, str], *, other_strings: Sequence[str] = ()
) -> tuple[dict[str, str], list[str]]:
    """Leaves out what no process can be given: too long a text, or a name with `=`.

    Args:
        variables: all there are.
        other_strings: what else the process gets (arguments, other variables); all of it together
            has a limit too, and second spellings give way first.

    Returns:
        The variables that fit, and the names of those left out.
    """
    kept = {name: text for name, text in variables.items() if _fits(name, text)}
    room_bytes = _MOST_BYTES - sum(_size_bytes(text) for text in other_strings)
    if sum(_size_bytes(f"{name}={text}") for name, text in kept.items()) > room_bytes:
        # The literal spelling stays: it is the toolkit's, the readable one is ours.
        doubled = {_readable(name) for name in kept if name != _readable(name)}
        kept = {name: text for name, text in kept.items() if name not in doubled}
    return kept, sorted(variables.keys() - kept.keys())


def _fits(name: str, text: str) -> bool:
    return _size_bytes(f"{name}={text}") <= LONGEST_STRING_BYTES and "=" not in name


def _size_bytes(text: str) -> int:
    # The kernel counts the NUL that ends each string.
    return len(text.encode("utf-8", "replace")) + 1


def _folders(job: Job) -> dict[str, Any]:
    paths = job.paths
    return {
        "model_dir": paths.model_dir,
        "input_dir": paths.input_dir,
        "input_config_dir": paths.config_dir,
        "input_data_dir": paths.data_dir,
        "output_dir": paths.output_dir,
        "output_data_dir": paths.output_data_dir,
        "output_failure": paths.failure_file,
        "output_intermediate_dir": paths.intermediate_dir,
        "checkpoint_dir": job.services.checkpoint_dir,
        "tensorboard_dir": job.services.tensorboard_dir,
    }


def _machines(job: Job) -> dict[str, Any]:
    cluster, hardware = job.cluster, job.hardware
    return {
        "hosts": cluster.hosts,
        "current_host": cluster.current_host,
        # SDK v3 sorts the hosts for it; the leader, below, is the first in the order of the file.
        "current_host_rank": sorted(cluster.hosts).index(cluster.current_host),
        "host_count": len(cluster.hosts),
        "master_addr": job.leader,
        "master_port": MASTER_PORT,
        "network_interface_name": cluster.network_interface,
        "current_instance_type": cluster.instance_type,
        "current_instance_group": cluster.group_name,
        "current_instance_group_hosts": cluster.group_hosts,
        "instance_groups": [group.name for group in cluster.groups],
        "instance_groups_dict": {
            entry["instance_group_name"]: entry
            for entry in cluster.raw.get("instance_groups") or []
        },
        "distribution_instance_groups": job.distribution_groups,
        "is_hetero": cluster.is_heterogeneous,
        "num_cpus": hardware.cpus,
        "num_gpus": hardware.gpus,
        "num_neurons": hardware.neurons,
    }


# SM_TRAINING_ENV holds what the single variables hold, under the toolkit's older names.
_RENAMED = {"hps": "hyperparameters", "framework_params": "additional_framework_parameters"}
_NOT_IN_TRAINING_ENV = {
    "channels",
    "checkpoint_dir",
    "current_host_rank",
    "entry_script",
    "host_count",
    "output_failure",
    "source_dir",
    "tensorboard_dir",
    "user_args",
}


def _training_env(job: Job, fields: dict[str, Any]) -> dict[str, Any]:
    same = {
        _RENAMED.get(name, name): value
        for name, value in fields.items()
        if name not in _NOT_IN_TRAINING_ENV
    }
    return {
        **same,
        "topology": job.cluster.topology,
        "channel_input_dirs": {c.name: c.path for c in job.channels},
        "distribution_hosts": job.distribution_hosts,
        "is_master": job.is_leader,
        "master_hostname": job.leader,
        "job_name": job.name or None,
        # SageMaker's own model-parallel launchers are not part of a PyTorch wheel.
        "is_modelparallel_enabled": None,
        "is_smddprun_installed": False,
        "is_smddpmprun_installed": False,
    }


def _both_spellings(prefix: str, values: Mapping[str, object]) -> dict[str, str]:
    # `SM_HP_BATCH-SIZE` is what the toolkit sets, but no shell can read it. Where the user sent
    # both spellings, each name keeps its own value.
    literal = {f"{prefix}{name.upper()}": _encode(value) for name, value in values.items()}
    return {_readable(name): text for name, text in literal.items()} | literal


def _readable(name: str) -> str:
    return name.replace("-", "_").replace(".", "_")


def _encode(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    # The toolkit's encoding (sorted, no blanks, ASCII), not that of SDK v3's drivers.
    if isinstance(value, bool | int | float | dict | list | tuple):
        try:
            return dumps(value)
        except RecursionError:
            raise ConfigInvalid(
                "a config file is nested too deeply to be handed to the script",
                fix="flatten it, or put it in a file of an input channel",
            ) from None
    return str(value)

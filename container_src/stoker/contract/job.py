"""This training job as the container sees it, read once."""

from __future__ import annotations

import os

from stoker.contract.channels import Channels, read_channels
from stoker.contract.cluster import Cluster, read_cluster
from stoker.contract.hardware import Hardware, read_hardware
from stoker.contract.hyperparameters import (
    DISTRIBUTIONS,
    Hyperparameters,
    is_on,
    read_hyperparameters,
)
from stoker.contract.paths import Paths, read_paths
from stoker.contract.record import Record
from stoker.contract.services import Services, read_services

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from stoker.contract.params import Params

_LOG_LEVELS = {"debug": 10, "info": 20, "warning": 30, "warn": 30, "error": 40, "critical": 50}


class Job(Record):
    """Everything SageMaker says about this job. Frozen; nothing else reads the environment."""

    _unshown = ("environ", "hyperparameters")

    name: str
    arn: str
    region: str
    paths: Paths
    channels: Channels
    hyperparameters: Hyperparameters
    cluster: Cluster
    services: Services
    hardware: Hardware
    log_level: int
    environ: Mapping[str, str]
    """The environment the job was started with, the request's `Environment` included."""

    def channel(self, name: str) -> Path:
        """The folder of a channel.

        Raises:
            ChannelMissing: this job has no such channel; the text names those it has.
        """
        return _as_path(self.channels.get(name).path)

    @property
    def model_dir(self) -> Path:
        """Where the final model goes; SageMaker uploads it as model.tar.gz."""
        return _as_path(self.paths.model_dir)

    @property
    def output_data_dir(self) -> Path:
        """Where everything else goes that is worth keeping; uploaded as output.tar.gz."""
        return _as_path(self.paths.output_data_dir)

    @property
    def checkpoint_dir(self) -> Path:
        """Synced with S3 while the job runs, and there again after an interruption."""
        return _as_path(self.services.checkpoint_dir)

    @property
    def tensorboard_dir(self) -> Path:
        """Synced to S3 while the job runs."""
        return _as_path(self.services.tensorboard_dir)

    def params(self, **defaults: Any) -> Params:  # noqa: ANN401 - the defaults give the types
        """Hyperparameters, each of the type of its default.

        Args:
            defaults: name → default, or name → type where the job must give a value.

        Raises:
            ParamsInvalid: all misspelt, missing and ill-typed ones at once.

        Example:
            >>> hp = job.params(lr=1e-3, epochs=5, optimizer="adam")
            >>> hp.lr
        """
        # Only scripts need this; imported here it costs the launcher nothing.
        from stoker.contract.params import make_params

        return make_params(self.hyperparameters.user(), defaults)

    @property
    def distribution_groups(self) -> tuple[str, ...]:
        """Instance groups that take part in the distributed launch."""
        framework = self.hyperparameters.framework()
        named = framework.get("sagemaker_distribution_instance_groups")
        if isinstance(named, list):
            return tuple(str(name) for name in named)
        asked = any(is_on(framework.get(key)) for key in DISTRIBUTIONS)
        return (self.cluster.group_name,) if asked else ()

    @property
    def distribution_hosts(self) -> tuple[str, ...]:
        return self.cluster.hosts_of(self.distribution_groups)

    @property
    def leader(self) -> str:
        """The first host of the distribution, or of the job."""
        # SDK v3 writes algo-1 here, which a group of a heterogeneous cluster need not contain.
        return (self.distribution_hosts or self.cluster.hosts)[0]

    @property
    def is_leader(self) -> bool:
        return self.cluster.current_host == self.leader


def read_job(
    *, environ: Mapping[str, str] | None = None, root: str | os.PathLike[str] | None = None
) -> Job:
    """Reads `/opt/ml` and the environment. Works on a laptop with neither.

    Args:
        environ: instead of this process's own environment.
        root: instead of /opt/ml; `STOKER_ROOT` does the same from outside.

    Raises:
        ConfigInvalid: a config file is damaged or contradicts itself.
    """
    # A copy: what the process changes later is not what the job was started with.
    environ = dict(os.environ) if environ is None else environ
    paths = Paths(root=os.path.abspath(root)) if root else read_paths(environ)
    hyperparameters = read_hyperparameters(paths)
    return Job(
        name=environ.get("TRAINING_JOB_NAME", ""),
        arn=environ.get("TRAINING_JOB_ARN", ""),
        region=_region(environ, hyperparameters),
        paths=paths,
        channels=read_channels(paths),
        hyperparameters=hyperparameters,
        cluster=read_cluster(paths),
        services=read_services(paths, environ),
        hardware=read_hardware(environ),
        log_level=_log_level(environ, hyperparameters),
        environ=environ,
    )


def _as_path(text: str) -> Path:
    # Imported for scripts only: it would cost the launcher a seventh of its start.
    from pathlib import Path

    return Path(text)


def _region(environ: Mapping[str, str], hyperparameters: Hyperparameters) -> str:
    return (
        environ.get("AWS_REGION")
        or hyperparameters.setting("sagemaker_region")
        or environ.get("AWS_DEFAULT_REGION")
        or ""
    )


def _log_level(environ: Mapping[str, str], hyperparameters: Hyperparameters) -> int:
    # The environment first: the toolkit overwrites it with the hyperparameter, so it had no
    # effect.
    text = (
        environ.get("SAGEMAKER_CONTAINER_LOG_LEVEL")
        or hyperparameters.setting("sagemaker_container_log_level")
        or "info"
    )
    text = text.strip().lower()
    is_number = text.isascii() and text.isdigit() and len(text) < 4
    # A name makes the toolkit's job fail. A level that is neither name nor number means info.
    return int(text) if is_number else _LOG_LEVELS.get(text, 20)

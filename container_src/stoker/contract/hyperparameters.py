"""Hyperparameters as the platform sends them: a flat map of texts, usually JSON inside.

Two readings of the same text live here. `values()` is the stock toolkit's: JSON where it parses,
so that scripts see the command line they always saw. `Params` (params.py) works from the raw text.
"""

from __future__ import annotations

from stoker.contract.files import read_object
from stoker.contract.quick_json import dumps, loads_unexplained
from stoker.contract.record import Record
from stoker.errors import ConfigInvalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from stoker.contract.paths import Paths

RESERVED_PREFIX = "sagemaker_"
# Known to every launcher; other `sagemaker_*` keys are the framework's (SM_FRAMEWORK_PARAMS).
_FIXED = {
    "sagemaker_program",
    "sagemaker_submit_directory",
    "sagemaker_enable_cloudwatch_metrics",
    "sagemaker_region",
    "sagemaker_container_log_level",
    "sagemaker_job_name",
    "sagemaker_s3_output",
}
TORCHRUN_SWITCH = "sagemaker_torch_distributed_enabled"
# Any of these asks for one launch over several hosts.
DISTRIBUTIONS = (
    "sagemaker_mpi_enabled",
    "sagemaker_parameter_server_enabled",
    "sagemaker_distributed_dataparallel_enabled",
    "sagemaker_pytorch_ddp_enabled",
    "sagemaker_pytorch_xla_multi_worker_enabled",
    "sagemaker_multi_worker_mirrored_strategy_enabled",
    TORCHRUN_SWITCH,
)
SETTINGS = frozenset(
    {
        *_FIXED,
        *DISTRIBUTIONS,
        "sagemaker_mpi_num_of_processes_per_host",
        "sagemaker_mpi_custom_mpi_options",
        "sagemaker_distribution_instance_groups",
        "sagemaker_instance_type",
        "sagemaker_distributed_dataparallel_custom_mpi_options",
    }
)
"""All that tell a launcher how to run; a user's own name cannot begin like them."""

# The tuner's and the toolkit's own keys without the prefix: the toolkit keeps them from the
# script.
_RESERVED_KEYS = {"_tuning_objective_metric", "default_user_module_name"}


class Hyperparameters(Record):
    """The raw texts, and the three groups they fall into."""

    raw: Mapping[str, str]

    def user(self) -> dict[str, str]:
        """Raw texts of the keys that reach the script."""
        return {k: v for k, v in self.raw.items() if not _is_reserved(k)}

    def values(self) -> dict[str, Any]:
        """The user's keys, each decoded as the stock toolkit does."""
        return {key: decode(text) for key, text in self.user().items()}

    def framework(self) -> dict[str, Any]:
        """The `sagemaker_*` keys that say how to launch."""
        return {
            key: decode(text)
            for key, text in self.raw.items()
            if key.startswith(RESERVED_PREFIX) and key not in _FIXED
        }

    def setting(self, key: str) -> str | None:
        """One reserved key as text (`sagemaker_program` and its like), JSON quotes removed."""
        text = self.raw.get(key)
        return None if text is None else as_text(text)

    def changed_texts(self) -> dict[str, str]:
        """Numbers that do not print back to the text that was sent, such as 1.10 → 1.1."""
        # A bool is an int, too, and prints as True: lower() below makes it equal to `true`.
        printed = {k: str(v) for k, v in self.values().items() if isinstance(v, int | float)}
        sent = self.user()
        return {k: v for k, v in printed.items() if v.lower() != sent[k].strip().lower()}


def read_hyperparameters(paths: Paths) -> Hyperparameters:
    """Reads hyperparameters.json; no file means none.

    Raises:
        ConfigInvalid: not an object, or a text that no process can be given.
    """
    file = paths.config_file("hyperparameters.json")
    raw = {key: _raw_text(value) for key, value in read_object(file).items()}
    for key, text in raw.items():
        if "\0" in key or "\0" in argument_text(decode(text)):
            raise ConfigInvalid(
                f"{file}: hyperparameter {key!r:.80} holds a NUL character",
                fix="remove it: neither a command line nor an environment can carry one",
            )
    return Hyperparameters(raw=raw)


def decode(text: str) -> Any:  # noqa: ANN401 - JSON is any of six types
    """JSON where it parses, the text itself where it does not."""
    try:
        # Texts are often bare: `train.py`, `adam`.
        return loads_unexplained(text)
    except (ValueError, RecursionError):
        return text


def as_text(text: str) -> str:
    """The text a user meant: SDK v2 sends strings JSON-quoted, everyone else bare."""
    if text[:1] == '"':
        value = decode(text)
        if isinstance(value, str):
            return value
    return text


def is_on(value: object) -> bool:
    """Whether a switch such as sagemaker_torch_distributed_enabled is on, however it is spelt."""
    return value is True or str(value).strip().lower() in ("true", "1")


def make_arguments(values: Mapping[str, Any]) -> list[str]:
    """The script's command line, spelt exactly as the stock toolkit spells it."""
    arguments: list[str] = []
    for key in sorted(values):
        # One letter gives -k, and the empty key an empty argument: so does the toolkit.
        if key:
            arguments.append(f"--{key}" if len(key) > 1 else f"-{key}")
        else:
            arguments.append("")
        arguments.append(argument_text(values[key]))
    return arguments


def argument_text(value: object) -> str:
    """One value as it appears on the command line."""
    if value is None:
        return ""
    if isinstance(value, dict):
        return ",".join(f"{key}={value[key]}" for key in sorted(value))
    return str(value)


def _raw_text(value: object) -> str:
    # Hand-written test files hold numbers and objects; the service sends texts only.
    return value if isinstance(value, str) else dumps(value)


def _is_reserved(key: str) -> bool:
    return key.startswith(RESERVED_PREFIX) or key in _RESERVED_KEYS

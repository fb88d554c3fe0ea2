"""Where the curves and traces of a job are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker.machine.failures import UsageRefused

# Below a job's folder, whatever engine ran it.
_IN_A_JOB = ("output/tensorboard", "algo-1/output/tensorboard")
_JOBS = Path(".work/jobs")
_SCHEME = "s3://"


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """What TensorBoard is pointed at."""

    logdir: str
    """A folder, or an s3:// address."""

    variables: Mapping[str, str] = field(default_factory=dict)
    """To be set: those of the local platform."""

    removed: tuple[str, ...] = ()
    """To be unset: what would lead away from it."""

    @property
    def is_on_s3(self) -> bool:
        """Whether boto3 is needed."""
        return self.logdir.startswith(_SCHEME)


def find_source(text: str, *, describe: Callable[[str], Mapping[str, Any]]) -> Source:
    """What the user means by a folder, an s3:// address or the name of a job.

    Args:
        text: as it was given.
        describe: DescribeTrainingJob; called for a job only.

    Raises:
        UsageRefused: there is no such folder or job, or the job keeps no TensorBoard files.
    """
    if text.startswith(_SCHEME):
        return Source(logdir=text.rstrip("/"))
    for folder in (Path(text), _JOBS / text):
        if folder.is_dir():
            return Source(logdir=str(_curves_of(folder).absolute()))
    if "/" in text or text.startswith("."):
        raise UsageRefused(
            f"there is no folder {text}", fix="name a folder, an s3:// address or a job"
        )
    return Source(logdir=make_prefix(describe(text)))


def make_prefix(description: Mapping[str, Any]) -> str:
    """The address that SageMaker keeps a job's TensorBoard folder under.

    Raises:
        UsageRefused: the job was not told to keep it.
    """
    name = description["TrainingJobName"]
    path = description.get("TensorBoardOutputConfig", {}).get("S3OutputPath")
    if not path:
        raise UsageRefused(
            f"{name} was started without a TensorBoardOutputConfig: nothing of it is on S3",
            fix="pass tensorboard_output_config=TensorBoardOutputConfig(s3_output_path='s3://…') "
            "to the estimator, or start it by `stoker train`",
        )
    return f"{path.rstrip('/')}/{name}/tensorboard-output"


def _curves_of(folder: Path) -> Path:
    inside = (folder / part for part in _IN_A_JOB)
    return next((part for part in inside if part.is_dir()), folder)

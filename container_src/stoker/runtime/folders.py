"""The folders a script may count on."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.contract.job import Job
    from stoker.runtime.log import Log


def make_folders(job: Job, log: Log) -> None:
    """Makes what SageMaker promises or syncs; one that cannot be made is only a warning."""
    for folder in (
        job.paths.model_dir,
        job.paths.output_data_dir,
        job.services.checkpoint_dir,
        job.services.tensorboard_dir,
    ):
        _make(folder, log)


def make_intermediate_folder(job: Job, log: Log) -> None:
    """The folder that `sagemaker_s3_output` asks for; where it exists, the platform uploads it."""
    place = job.hyperparameters.setting("sagemaker_s3_output")
    folder = job.paths.intermediate_dir
    if not place or os.path.exists(folder):
        return
    _make(folder, log)
    log.warning(
        f"sagemaker_s3_output is set, but {folder} is not uploaded while the script runs: save to "
        "the checkpoint folder (CheckpointConfig), or run the stock toolkit "
        "(STOKER_LAUNCHER=toolkit)"
    )


def _make(folder: str, log: Log) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except (OSError, ValueError) as error:  # ValueError: no name for any file
        log.warning(f"{folder!r} could not be made: {error}")

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
        try:
            os.makedirs(folder, exist_ok=True)
        except (OSError, ValueError) as error:  # ValueError: no name for any file
            log.warning(f"{folder!r} could not be made: {error}")

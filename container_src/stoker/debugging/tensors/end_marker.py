"""Saying that nothing will come any more, where no launcher does."""

from __future__ import annotations

import os

from stoker.contract.debugger import END_MARKER
from stoker.contract.files import remove_file


def mark_end(folder: str, *, is_job: bool) -> None:
    """Tells readers that no step will come any more.

    Args:
        folder: of the saved tensors.
        is_job: whether this is a training job (TRAINING_JOB_NAME is set): then whoever started the
            worker does it, once everything is uploaded, and this function does nothing.

    Raises:
        OSError: it cannot be written.
    """
    if not is_job:
        os.makedirs(folder, exist_ok=True)
        os.close(os.open(f"{folder}/{END_MARKER}", os.O_WRONLY | os.O_CREAT, 0o666))


def unmark_end(folder: str, *, is_job: bool) -> None:
    """Something comes after all: another run saves in the folder of one that has ended.

    Raises:
        OSError: the marker cannot be removed.
    """
    if not is_job:
        remove_file(f"{folder}/{END_MARKER}")

"""The names that SageMaker's uploader gives to its marker files, and those it skips.

While it uploads `f` there is `f.sagemaker-uploading`, afterwards `f.sagemaker-uploaded`. It skips
files and folders whose names end in `.sagemaker-ignore`.
"""

from __future__ import annotations

import os

UPLOADING = ".sagemaker-uploading"
UPLOADED = ".sagemaker-uploaded"
IGNORED = ".sagemaker-ignore"


def temporary_path(path: str) -> str:
    """Where this process writes a file before it renames it to `path`; it is not uploaded."""
    # With the process id, because ranks may write the same file at the same time.
    return f"{path}.{os.getpid()}{IGNORED}"

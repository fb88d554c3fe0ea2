"""The uploader's marker files: how a job sees that its checkpoint has left the machine.

`f.sagemaker-uploading` is there while `f` is uploaded, `f.sagemaker-uploaded` once it is in S3;
names that end in `.sagemaker-ignore` are never uploaded.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from stoker.host.platform.around.confined import Parts, open_folder, remove_file

UPLOADING = ".sagemaker-uploading"
UPLOADED = ".sagemaker-uploaded"
_NEVER_UPLOADED = (".sagemaker-ignore", UPLOADING, UPLOADED)
_MARKER = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def is_ignored(parts: Parts) -> bool:
    """Whether a file, or a folder above it, is none of the uploader's business."""
    return any(part.endswith(_NEVER_UPLOADED) for part in parts)


def set_marker(base: Path, parts: Parts, suffix: str) -> None:
    """Put a marker beside a file. The job may have removed the folder: that is no error."""
    with suppress(OSError), open_folder(base, parts[:-1]) as folder:
        os.close(os.open(parts[-1] + suffix, _MARKER, 0o644, dir_fd=folder))


def clear_markers(base: Path, parts: Parts, *suffixes: str) -> None:
    """Remove markers from beside a file."""
    for suffix in suffixes or (UPLOADING, UPLOADED):
        with suppress(OSError):
            remove_file(base, (*parts[:-1], parts[-1] + suffix))

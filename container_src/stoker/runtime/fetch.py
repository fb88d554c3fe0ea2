"""Helper process: brings the user's code into /opt/ml/code. `fetch SOURCE FOLDER`."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from stoker.contract.code import ARCHIVE_SUFFIXES
from stoker.contract.upload_markers import IGNORED
from stoker.errors import CodeMissing, PreparationFailed, StokerError
from stoker.runtime.unpack import unpack

_DOWNLOAD_FIX = (
    "check source_dir= and the upload, that the job's role may read it and that the network allows"
    " S3; under network isolation SDK v2 sends code as a channel instead"
)


def main(argv: list[str]) -> int:
    """Fetches, unpacks or copies; a mistake becomes two lines on stderr and its exit code."""
    source, folder = argv
    try:
        fetch(source, Path(folder))
    except StokerError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"{source} could not be brought to {folder}: {error}", file=sys.stderr)
        return os.EX_UNAVAILABLE
    return 0


def fetch(source: str, folder: Path) -> None:
    """Puts the code at `source` (S3, archive, folder or file) into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    if not source.startswith("s3://"):
        _place(Path(source), folder)
        return
    try:  # boto3 takes longer to import than the launcher takes to run
        from stoker.storage.aws import download
    except ModuleNotFoundError as error:
        raise PreparationFailed(
            f"the code is at {source}, and the image has no {error.name} to download it",
            fix="add it to the image: pip install 'stoker[container]'",
        ) from error

    # Next to the code, on the job's large volume.
    with tempfile.TemporaryDirectory(dir=folder.parent, suffix=IGNORED) as scratch:
        _place(download(source, Path(scratch), fix=_DOWNLOAD_FIX), folder)


def _place(source: Path, folder: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, folder, dirs_exist_ok=True)
    elif source.name.endswith(ARCHIVE_SUFFIXES):
        unpack(source, folder)
    elif source.is_file():
        shutil.copy2(source, folder / source.name)
    else:
        raise CodeMissing(f"{source} is neither a folder nor a file", fix="look at source_dir=")

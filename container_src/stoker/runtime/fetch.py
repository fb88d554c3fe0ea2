"""Helper process: brings the user's code into /opt/ml/code. `fetch SOURCE FOLDER`."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from stoker.contract.code import ARCHIVE_SUFFIXES
from stoker.errors import CodeMissing, StokerError
from stoker.runtime.archive import unpack


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
    # boto3 takes longer to import than the launcher takes to run.
    from stoker.runtime.sagemaker import download

    with tempfile.TemporaryDirectory(dir=folder.parent, suffix=".sagemaker-ignore") as scratch:
        local = Path(scratch) / (os.path.basename(source) or "code")
        download(source, local)
        _place(local, folder)


def _place(source: Path, folder: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, folder, dirs_exist_ok=True)
    elif source.name.endswith(ARCHIVE_SUFFIXES):
        unpack(source, folder)
    elif source.is_file():
        shutil.copy2(source, folder / source.name)
    else:
        raise CodeMissing(f"{source} is neither a folder nor a file", fix="look at source_dir=")

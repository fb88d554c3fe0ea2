"""Where the user's code comes from: the five ways, and which of them wins."""

from __future__ import annotations

import os

from stoker.contract.record import Record
from stoker.contract.upload_markers import IGNORED
from stoker.errors import CodeMissing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    from stoker.contract.channels import Channels
    from stoker.contract.hyperparameters import Hyperparameters
    from stoker.contract.paths import Paths

CODE_CHANNEL = "code"
ARCHIVE_SUFFIXES = (".tar.gz", ".tgz", ".tar", ".tar.bz2", ".tar.xz")


class CodeSource(Record):
    """One place the code is in. `folder` sources run where they are; the rest is fetched."""

    origin: Literal["submit directory", "code channel", "/opt/ml/code", "image"]
    kind: Literal["folder", "archive", "file", "s3"]
    location: str

    def __str__(self) -> str:
        return f"{self.location} ({self.origin})"


class Code(Record):
    """The entry point as the job names it, and the source that wins."""

    entry_point: str
    source: CodeSource
    ignored: tuple[CodeSource, ...] = ()
    """Other places that hold code too; said in one log line."""


def find_code(
    paths: Paths,
    *,
    hyperparameters: Hyperparameters,
    channels: Channels,
    environ: Mapping[str, str],
) -> Code:
    """Chooses: explicit submit directory > `code` channel > /opt/ml/code > baked into the image.

    Raises:
        CodeMissing: no entry point is named, or none of the places holds code.
    """
    sent = hyperparameters.setting("sagemaker_program")
    # The environment wins over the hyperparameter for the program, as in the stock toolkit.
    entry_point = _checked(environ.get("SAGEMAKER_PROGRAM") or sent)
    submitted = hyperparameters.setting("sagemaker_submit_directory") or environ.get(
        "SAGEMAKER_SUBMIT_DIRECTORY"
    )
    unasked = [*_mounted(paths), *_baked(entry_point, paths)]
    if os.path.isabs(entry_point) and not os.path.exists(f"{paths.code_dir}/{sent}"):
        unasked.reverse()  # it names a file of the image, and nothing in the mounted folder
    found = [*_submit_directory(submitted, paths), *_code_channel(channels), *unasked]
    if not found:
        raise _no_code(entry_point, paths)
    source = found[0]
    if os.path.isabs(entry_point) and not entry_point.startswith(f"{source.location}/"):
        # The image's own program, but the code that was sent wins: so does its name.
        entry_point = sent or os.path.basename(entry_point)
    return Code(
        entry_point=entry_point.removeprefix(f"{source.location}/"),
        source=source,
        # Local mode names the mounted folder as submit directory, too: that is one place, not two.
        ignored=tuple(other for other in found[1:] if other.location != source.location),
    )


def _checked(entry_point: str | None) -> str:
    if not entry_point:
        raise CodeMissing(
            "no entry point: neither SAGEMAKER_PROGRAM nor the hyperparameter "
            "sagemaker_program is set",
            fix="Estimator(entry_point='train.py', source_dir='src'), or in your Dockerfile "
            "ENV SAGEMAKER_PROGRAM=/opt/program/train.py",
        )
    parts = entry_point.split("/")
    # It becomes an argument of python or bash: an option there, or a way out of the source
    # directory.
    if entry_point.startswith("-") or ".." in parts or any(c < " " for c in entry_point):
        raise CodeMissing(
            f"{entry_point!r} is not a valid entry point",
            fix="name a file of the source directory, such as train.py or pkg/train.py",
        )
    return entry_point


def _no_code(entry_point: str, paths: Paths) -> CodeMissing:
    return CodeMissing(
        f"entry point {entry_point!r} is named, but no code is there: no submit directory, "
        f"no 'code' channel, {paths.code_dir} is empty, and the image holds no such file",
        fix="pass source_dir= to the estimator, or copy the code into the image",
    )


def _submit_directory(location: str | None, paths: Paths) -> list[CodeSource]:
    if not location:
        return []
    if location.startswith("s3://"):
        return [CodeSource(origin="submit directory", kind="s3", location=location)]
    path = os.path.abspath(location.removeprefix("file://"))
    if os.path.dirname(path) == paths.code_dir and _kind(path) == "file":
        path = paths.code_dir  # the script itself was named, and it is in its place already
    if os.path.exists(path):
        return [CodeSource(origin="submit directory", kind=_kind(path), location=path)]
    if _mounted(paths):  # SDK local mode names a folder of the host and mounts it here
        return []
    raise CodeMissing(
        f"the submit directory {location} does not exist in the container",
        fix="use s3://…, or mount the folder at /opt/ml/code",
    )


def _code_channel(channels: Channels) -> list[CodeSource]:
    if CODE_CHANNEL not in channels.by_name:
        return []
    folder = channels.by_name[CODE_CHANNEL].path
    names = _names(folder)
    archives = [name for name in names if name.endswith(ARCHIVE_SUFFIXES)]
    # SDK v2 sends a single archive (network isolation), SDK v3 a tree, which may hold archives of
    # its own.
    if len(names) == 1 and archives:
        location = f"{folder}/{archives[0]}"
        return [CodeSource(origin="code channel", kind="archive", location=location)]
    if names:
        return [CodeSource(origin="code channel", kind="folder", location=folder)]
    return []


def _mounted(paths: Paths) -> list[CodeSource]:
    if not _names(paths.code_dir):
        return []
    return [CodeSource(origin="/opt/ml/code", kind="folder", location=paths.code_dir)]


def _baked(entry_point: str, paths: Paths) -> list[CodeSource]:
    if os.path.isabs(entry_point):
        # Below /opt/ml the platform's mount hides what was baked in; what is mounted is
        # `_mounted`'s.
        outside = not entry_point.startswith(f"{paths.root}/")
        folder = os.path.dirname(entry_point)
    else:
        folder = os.getcwd()  # the image's WORKDIR
        outside = folder != paths.code_dir
    if outside and os.path.exists(os.path.join(folder, entry_point)):
        return [CodeSource(origin="image", kind="folder", location=folder)]
    return []


def _kind(path: str) -> Literal["folder", "archive", "file"]:
    if os.path.isdir(path):
        return "folder"
    return "archive" if path.endswith(ARCHIVE_SUFFIXES) else "file"


def _names(folder: str) -> list[str]:
    try:
        # A fetch that was killed leaves its scratch folder behind (runtime.fetch, runtime.unpack).
        return [name for name in os.listdir(folder) if not name.endswith(IGNORED)]
    except OSError:
        return []

"""What a job has left when its containers have ended: results, and words about its end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from stoker.contract.paths import OPT_ML
from stoker.platform.data.artifacts import pack_and_upload, upload_outputs
from stoker.platform.data.confined import read_start
from stoker.platform.data.failures import UploadFailed
from stoker.platform.data.log_streams import to_text
from stoker.platform.jobs.context import JobContext, say_once
from stoker.platform.jobs.state import JobRecord
from stoker.platform.model.processing_request import ProcessingRequest
from stoker.platform.model.request import TrainingRequest
from stoker.platform.model.root import Root

_FAILURE_BYTES = 4096  # FailureReason and ExitMessage hold 1024 characters
_MESSAGE_CHARACTERS = 1024
# The engine's words about a program for another machine: no launcher has run that could say more.
_WRONG_PROGRAM = "exec format error"
_WRONG_PROGRAM_FIX = (
    "fix: the image is for another architecture than this machine, or its program is a script "
    "without #!; build it with --platform linux/amd64, as the service's instances need it"
)
_RESULTS = ("model", "output", "processing")


def upload_results(
    context: JobContext,
    record: JobRecord,
    request: TrainingRequest,
    *,
    show: Callable[[str], object],
) -> str:
    """Upload what the job has left, and say in its log what was left out.

    Returns:
        The address of the model; empty if the job has none.

    Raises:
        UploadFailed: it could not be uploaded, and is kept in a folder that the text names.
    """
    folders = {host: context.root.host_dir(record.name, host) for host in request.hosts}
    try:
        model_uri, skipped = _upload(context, record, request, folders, show)
    except UploadFailed as failure:
        kept = keep_results(context.root, request)
        raise UploadFailed(f"{failure.message} (kept in {kept})", fix=failure.fix) from failure
    left_out = [f"left out of the artifacts: {each}" for each in skipped]
    say_once(context.streams, request, *left_out, *find_losses(record, request, context.root))
    return model_uri


def _upload(
    context: JobContext,
    record: JobRecord,
    request: TrainingRequest,
    folders: Mapping[str, Path],
    show: Callable[[str], object],
) -> tuple[str, tuple[str, ...]]:
    if isinstance(request, ProcessingRequest):
        if _has_failed(record):  # what an earlier run has left there may be whole
            return "", ()
        return "", upload_outputs(request, folders, context.storage, show=show)
    work = context.root.job_dir(record.name) / "work"
    artifacts = pack_and_upload(request, folders, context.storage, work, show=show)
    return artifacts.model_uri or "", artifacts.skipped


def find_losses(record: JobRecord, request: TrainingRequest, root: Root) -> Iterator[str]:
    """What a user may miss once the job is over, in one line each."""
    folder = root.host_dir(record.name, request.hosts[0])
    if isinstance(request, ProcessingRequest):
        yield from _find_lost_outputs(record, request, folder)
        return
    if request.tensorboard is None and _has_files(folder / "output/tensorboard"):
        yield (
            "the TensorBoard files of this job are not kept: it has no TensorBoardOutputConfig; "
            "fix: tensorboard_output_config=TensorBoardOutputConfig(s3_output_path=…)"
        )
    if _has_failed(record) and not _has_files(folder / "model"):
        yield "model.tar.gz is empty: the job failed before anything was in /opt/ml/model"


def _find_lost_outputs(
    record: JobRecord, request: ProcessingRequest, folder: Path
) -> Iterator[str]:
    for output in request.outputs if _has_failed(record) else ():
        place = folder / output.local_path.removeprefix(f"{OPT_ML}/")
        if not output.is_continuous and _has_files(place):
            yield (
                f"output {output.name!r} is not uploaded, because the job failed; "
                "fix: S3UploadMode Continuous uploads while the job runs"
            )


def _has_files(folder: Path) -> bool:
    # The job may have put a link there: it is not followed.
    return not folder.is_symlink() and folder.is_dir() and any(folder.iterdir())


def keep_results(root: Root, request: TrainingRequest) -> Path:
    """Put models and output aside that could not be uploaded; returns where.

    Within one file system, so it works on a full disk, too.
    """
    kept = root.kept_dir(request.name)
    for host in request.hosts:
        (kept / host).mkdir(parents=True, exist_ok=True)
        for name in _RESULTS:
            with suppress(FileNotFoundError):  # done before, by a server that was killed
                (root.host_dir(request.name, host) / name).rename(kept / host / name)
    return kept


def read_end_texts(context: JobContext, request: TrainingRequest) -> dict[str, str]:
    """Host → what it says about its failure; empty if it says nothing."""
    return {host: _read_end_text(context, request, host) for host in request.hosts}


def _read_end_text(context: JobContext, request: TrainingRequest, host: str) -> str:
    is_processing = isinstance(request, ProcessingRequest)
    names = ("message", "failure") if is_processing else ("failure",)
    texts = (_read(context.root, request, host, name) for name in names)
    if text := next(filter(None, texts), ""):
        return text
    line = _read_last_line(context, request, host)
    if _WRONG_PROGRAM in line:
        return f"{line}; {_WRONG_PROGRAM_FIX}"
    return line if is_processing else ""


def read_exit_message(root: Root, request: TrainingRequest) -> str:
    """What the first host of a processing job that says anything wants to be shown."""
    if not isinstance(request, ProcessingRequest):
        return ""
    texts = (_read(root, request, host, "message") for host in request.hosts)
    return next(filter(None, texts), "")[:_MESSAGE_CHARACTERS]


def _read(root: Root, request: TrainingRequest, host: str, name: str) -> str:
    # The job may have put a link or a pipe there: neither is followed.
    folder = root.host_dir(request.name, host)
    start = read_start(folder, ("output", name), _FAILURE_BYTES)
    # Of binary output, which a script may have written last, a mark is left.
    return re.sub(r"[?\ufffd]{4,}", "(binary)", to_text(start)).strip()


def _read_last_line(context: JobContext, request: TrainingRequest, host: str) -> str:
    """Where Python writes the error itself; Stoker's launcher does not run in these jobs."""
    last = ""
    for event in context.streams.read(request.name, host, 0):
        if not event.text.startswith("[stoker] "):
            last = event.text.strip() or last
    return last


def _has_failed(record: JobRecord) -> bool:
    return record.verdict is not None and record.verdict.status == "Failed"

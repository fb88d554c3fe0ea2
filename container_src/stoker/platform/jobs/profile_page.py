"""The page of a profiled job, made again from the files of all hosts once the job is over.

The leader has made one in its container, of its own files: it sees no other host, and neither the
start of the machines nor the upload. This one takes its place in S3; without it, that one stays.
"""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from stoker.platform.data.failures import UploadFailed
from stoker.platform.data.rule_output import list_page_places
from stoker.platform.jobs.context import JobContext
from stoker.platform.jobs.describe import describe
from stoker.platform.jobs.state import JobRecord
from stoker.platform.model.request import TrainingRequest
from stoker.platform.model.root import REGION

_LONGEST_SECONDS = 120
_ENVIRONMENT = {
    "PYTHONPATH": str(Path(__file__).parents[3]),
    "OPENBLAS_NUM_THREADS": "1",
}
_log = logging.getLogger(__name__)


def upload_profile_page(context: JobContext, record: JobRecord, request: TrainingRequest) -> None:
    """Replaces page and JSON files in S3. What keeps it from that is said in the server's log."""
    if request.profiler is None or record.training_started is None:
        return
    with TemporaryDirectory(prefix="stoker-page-") as folder:
        try:
            _make_page(context, record, Path(folder))
            files = [file for file in sorted(Path(folder).rglob("*")) if file.is_file()]
            for place in list_page_places(request):
                for file in files:
                    parts = file.relative_to(folder).parts
                    content = io.BytesIO(file.read_bytes())
                    context.storage.upload(content, place.join(*parts), patient=True)
        except (OSError, subprocess.SubprocessError, UploadFailed) as error:
            said = (getattr(error, "stderr", "") or str(error)).strip()[-2000:]
            _log.warning("%s: the page of the leader is kept: %s", record.name, said)


def _make_page(context: JobContext, record: JobRecord, folder: Path) -> None:
    """A process of its own: NumPy is not to stay in the server, and no job is to end it."""
    metrics: dict[str, list[tuple[float, float]]] = {}
    for name in context.series.read_last(record.name):
        points = context.series.read(record.name, name)
        metrics[name] = [(point.time_ms / 1000, point.value) for point in points]
    asked = {"description": _describe_ended(record), "metrics": metrics, "region": REGION}
    module = "stoker.report.described_job"
    subprocess.run(
        # -P: the server's folder may be one of the user's, with modules of Python's names.
        [sys.executable, "-P", "-m", module, "--s3", str(context.root.s3_dir), "--output", folder],
        input=json.dumps(asked),
        env={**context.environment, **_ENVIRONMENT},
        check=True,
        capture_output=True,
        text=True,
        timeout=_LONGEST_SECONDS,
    )


def _describe_ended(record: JobRecord) -> dict[str, Any]:
    """As the job will be described in a moment: its last stage, the upload, is over."""
    description = describe(record)
    verdict = record.verdict
    if verdict is not None:
        description["TrainingJobStatus"] = verdict.status
        description |= {"FailureReason": verdict.failure_reason} if verdict.failure_reason else {}
    for each in description["SecondaryStatusTransitions"]:
        each.setdefault("EndTime", time.time())
    return description

"""Training, processing and tuning jobs as facts for their runs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from stoker.bus.run_file import parse_run_file
from stoker.platform.jobs.context import JobContext
from stoker.platform.jobs.describe import make_arn
from stoker.platform.jobs.state import JobRecord
from stoker.platform.jobs.store import JobKind, JobQuery, Store
from stoker.platform.model.processing_request import make_processing_arn, parse_processing
from stoker.platform.model.request import TrainingRequest, parse_request
from stoker.platform.tracking.job_facts import JobFacts, JobSource
from stoker.platform.tracking.job_lineage import MODEL, read_lineage, read_plain
from stoker.platform.tuning.describe import make_arn as make_tuning_arn
from stoker.platform.tuning.state import TuningRecord
from stoker.platform.tuning.store import TuningStore
from stoker.tracking.records import Artifact, Parameter

_PAGE_JOBS = 500
_AT_END = ("packages", "python", "metrics_file", "git_commit", "git_dirty")


def list_sources(
    context: JobContext, store: Store, tuning_store: TuningStore
) -> tuple[JobSource, ...]:
    """Of all kinds of jobs; parents first."""
    return (
        read_tuning_jobs(tuning_store),
        read_training_jobs(context, store),
        read_processing_jobs(context, store),
    )


def read_training_jobs(context: JobContext, store: Store) -> JobSource:
    """All training jobs, those of tuning jobs included."""
    return lambda since: (
        describe_training(context, job) for job in _read_changed(store, since, "training")
    )


def read_processing_jobs(context: JobContext, store: Store) -> JobSource:
    """All processing jobs."""
    return lambda since: (
        describe_processing(context, job) for job in _read_changed(store, since, "processing")
    )


def _read_changed(store: Store, since: float, kind: JobKind) -> Iterator[JobRecord]:
    after = None
    while True:
        query = JobQuery(limit=_PAGE_JOBS, kind=kind, after=after, modified=(since, None))
        page = store.page(query)
        yield from page
        if len(page) < _PAGE_JOBS:
            return
        after = (page[-1].created, page[-1].name)


def describe_training(context: JobContext, job: JobRecord) -> JobFacts:
    """One training job."""
    request = parse_request(job.request)
    mlflow: Mapping[str, str] = job.request.get("MlflowConfig", {})
    config: Mapping[str, str] = job.request.get("ExperimentConfig", {})
    inputs = {
        c.name: Artifact(uri=c.uri, media_type=c.content_type or "") for c in request.channels
    }
    model = {MODEL: Artifact(uri=job.model_uri)} if job.model_uri else {}
    verdict = job.verdict.failure_reason if job.verdict else ""
    return JobFacts(
        kind="training",
        name=job.name,
        arn=make_arn(job.name),
        message=verdict or job.transitions[-1].message,
        parameters={
            **{name: read_plain(text) for name, text in request.hyperparameters.items()},
            **_read_resources(request),
        },
        inputs={**inputs, "SageMaker.ImageUri": Artifact(uri=request.image)},
        outputs=model,
        experiment_config=config or _as_experiment(mlflow),
        title=config.get("TrialComponentDisplayName") or mlflow.get("MlflowRunName", ""),
        search=job.tuning_job_arn.rpartition("/")[2],
        read_end=partial(_read_run_file, context, job.name),
        **_read_common(context, job, request),
    )


def describe_processing(context: JobContext, job: JobRecord) -> JobFacts:
    """One processing job."""
    request = parse_processing(job.request)
    config: Mapping[str, str] = job.request.get("ExperimentConfig", {})
    verdict = job.verdict.failure_reason if job.verdict else ""
    return JobFacts(
        kind="processing",
        name=request.job_name,
        arn=make_processing_arn(request.job_name),
        message=verdict or job.exit_message,
        parameters=_read_resources(request),
        inputs={
            **{channel.name: Artifact(uri=channel.uri) for channel in request.channels},
            "SageMaker.ImageUri": Artifact(uri=request.image),
        },
        outputs={output.name: Artifact(uri=output.uri) for output in request.outputs},
        experiment_config=config,
        title=config.get("TrialComponentDisplayName", ""),
        **_read_common(context, job, request),
    )


def _read_common(context: JobContext, job: JobRecord, request: TrainingRequest) -> dict[str, Any]:
    """The facts that jobs with hosts have, whatever their kind."""
    is_over = job.stage == "ended"
    return {
        "created": job.created,
        "modified": job.modified,
        "status": job.status,
        "is_over": is_over,
        "started": job.training_started,
        "ended": job.training_ended if is_over else None,
        "tags": job.tags,
        "read_lineage": partial(read_lineage, request, context),
    }


def _read_resources(request: TrainingRequest) -> dict[str, Parameter]:
    return {
        "SageMaker.InstanceCount": float(len(request.hosts)),
        "SageMaker.InstanceType": request.groups[0].instance_type,
        "SageMaker.VolumeSizeInGB": float(request.volume_gb),
    }


def _as_experiment(mlflow: Mapping[str, str]) -> dict[str, str]:
    name = mlflow.get("MlflowExperimentName", "")
    return {"ExperimentName": name} if name else {}


def _read_run_file(context: JobContext, job: str) -> Mapping[str, Any]:
    """What the container wrote about itself; nothing if it did not, or is not ours."""
    try:
        found = parse_run_file(context.root.run_file(job).read_bytes())
    except (OSError, ValueError):
        return {}
    return {key: found[key] for key in _AT_END if key in found}


def read_tuning_jobs(store: TuningStore) -> JobSource:
    """All tuning jobs. Each is the parent of the runs of its trials."""

    def changed(since: float) -> Iterator[JobFacts]:
        yield from map(describe_tuning, store.read_changed(since))

    return changed


def describe_tuning(record: TuningRecord) -> JobFacts:
    """One tuning job."""
    config = record.request["HyperParameterTuningJobConfig"]
    return JobFacts(
        kind="tuning",
        name=record.name,
        arn=make_tuning_arn(record.name),
        created=record.created,
        modified=record.modified,
        status=record.status,
        is_over=record.is_over,
        message=record.failure_reason or record.finishing,
        started=record.created,
        ended=record.ended,
        parameters=_flatten(config),
        tags=record.tags,
        search=record.name,
    )


def _flatten(value: Any, path: str = "") -> dict[str, Parameter]:  # noqa: ANN401 - JSON
    """Nested settings as parameters: `ResourceLimits.MaxNumberOfTrainingJobs`."""
    if isinstance(value, Mapping):
        parts = (_flatten(each, f"{path}.{key}".strip(".")) for key, each in value.items())
        return {key: each for part in parts for key, each in part.items()}
    if isinstance(value, bool):
        return {path: str(value).lower()}
    if isinstance(value, int | float) and math.isfinite(value):
        return {path: float(value)}
    return {path: value if isinstance(value, str) else json.dumps(value)}

"""The services of the platform's one address."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from stoker.platform.api.cloudwatch import make_cloudwatch
from stoker.platform.api.ecr import make_ecr
from stoker.platform.api.identity import IAM, STS, describe_notebook
from stoker.platform.api.json_protocol import JsonProtocol, RestJsonProtocol
from stoker.platform.api.logs import make_logs
from stoker.platform.api.mlflow_protocol import MlflowProtocol
from stoker.platform.api.processing_jobs import ProcessingJobs
from stoker.platform.api.service import Service
from stoker.platform.api.shared_operations import JobOperations
from stoker.platform.api.tags import Tags
from stoker.platform.api.training_jobs import TrainingJobs
from stoker.platform.api.tuning_jobs import TuningJobs
from stoker.platform.jobs.context import JobContext
from stoker.platform.jobs.describe import describe
from stoker.platform.jobs.store import JobQuery, Store
from stoker.platform.jobs.supervisor import JobSupervisor
from stoker.platform.tracking.search import Documents
from stoker.platform.tracking.tracked import show_tags
from stoker.platform.tracking.tracking import Tracking
from stoker.platform.tuning.describe import TuningDescriptions
from stoker.platform.tuning.store import TuningStore
from stoker.platform.tuning.supervisor import TuningSupervisor


def make_services(
    context: JobContext,
    store: Store,
    supervisor: JobSupervisor,
    *,
    tuning_store: TuningStore,
    tuning: TuningSupervisor,
    tracking: Tracking,
) -> tuple[Service, ...]:
    """Every service but S3, which has a server of its own."""
    descriptions = TuningDescriptions(store, context.series)
    jobs = JobOperations(
        context, store, supervisor, make_notes=tracking.describe_experiment_config
    )
    training_jobs, processing_jobs = TrainingJobs(jobs), ProcessingJobs(jobs)
    sagemaker = Service(
        name="sagemaker",
        protocol=JsonProtocol(target_prefix="SageMaker"),
        operations={
            **training_jobs.operations(),
            "DescribeTrainingJob": lambda params: {
                **(found := training_jobs.operations()["DescribeTrainingJob"](params)),
                **tracking.describe_mlflow(found),
            },
            **processing_jobs.operations(),
            **TuningJobs(tuning_store, tuning, descriptions).operations(),
            **tracking.operations(_make_job_documents(store, tuning_store, descriptions)),
            **tracking.tag_operations(Tags(store, tuning_store).operations()),
            "DescribeNotebookInstance": describe_notebook,
        },
    )
    run_metrics = Service(
        name="sagemaker-metrics",
        protocol=RestJsonProtocol(),
        operations=tracking.metric_operations(),
    )
    mlflow = Service(
        name="mlflow", protocol=MlflowProtocol(), operations=tracking.mlflow_operations()
    )
    logs, cloudwatch = make_logs(context.streams), make_cloudwatch(context.series)
    ecr = make_ecr(context.root, context.engine)
    return (sagemaker, run_metrics, mlflow, logs, cloudwatch, ecr, STS, IAM)


# More than any store holds: Search filters after it has read.
_EVERY = 2**62


def _make_job_documents(
    store: Store, tuning_store: TuningStore, descriptions: TuningDescriptions
) -> dict[str, Documents]:
    """Resource of a search → its documents; each is also the name of a result's member."""

    def describe_training_jobs() -> Iterator[Mapping[str, Any]]:
        for record in store.page(JobQuery(limit=_EVERY)):
            yield {**describe(record), "Tags": show_tags(record.tags)}

    def describe_tuning_jobs() -> Iterator[Mapping[str, Any]]:
        for record in tuning_store.read_all():
            yield {**descriptions.describe(record), "Tags": show_tags(record.tags)}

    return {
        "TrainingJob": describe_training_jobs,
        "HyperParameterTuningJob": describe_tuning_jobs,
    }


_FOR_JOBS = ("Describe", "List", "Search", "AddTags", "AddAssociation", "DeleteTags")
_TRACKED = ("Experiment", "Trial", "TrialComponent", "Artifact", "Context", "Action", "Lineage")


def restrict(service: Service) -> Service:
    """A service as containers reach it: what a job may read and track, and nothing that starts,
    changes or ends jobs: those may use any folder of this machine."""
    if service.name != "sagemaker":
        return service
    kept = {
        name: operation
        for name, operation in service.operations.items()
        if name.startswith(_FOR_JOBS) or name.endswith(_TRACKED)
    }
    return replace(service, operations=kept)

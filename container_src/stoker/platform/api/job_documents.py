"""Training jobs and tuning jobs as Search finds them: their descriptions, with tags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stoker.platform.jobs.describe import describe
from stoker.platform.jobs.store import JobQuery, Store
from stoker.platform.tracking.search import Documents
from stoker.platform.tracking.tracked import show_tags
from stoker.platform.tuning.describe import TuningDescriptions
from stoker.platform.tuning.store import TuningStore

_EVERY = 2**62


def make_job_documents(
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

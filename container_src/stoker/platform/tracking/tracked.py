"""The records of the run store as the service names them: ARNs, faults, tags, memberships."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from stoker.platform.model.faults import resource_not_found, validation
from stoker.platform.model.root import ACCOUNT, DEFAULT_BUCKET, REGION
from stoker.tracking.memberships import DEFAULT_EXPERIMENT, MEMBER
from stoker.tracking.records import Experiment, LineageEntity, Link, Record, Run, Trial
from stoker.tracking.store import RecordExists, RecordMissing, RunStore

R = TypeVar("R", bound=Record)
Params = Mapping[str, Any]
Answer = dict[str, Any]
Operation = Callable[[dict[str, Any]], Mapping[str, Any]]
"""As `platform.api.service` has it; this part is below that one."""

_RESOURCES: Mapping[type[Record], str] = {
    Experiment: "experiment",
    Trial: "experiment-trial",
    Run: "experiment-trial-component",
}


def make_arn(kind: type[Record], name: str) -> str:
    """The ARN of a record; the service writes names in lower case."""
    return f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:{_RESOURCES[kind]}/{name.lower()}"


def parse_arn(arn: str) -> tuple[type[Record], str] | None:
    """Kind and name behind an ARN of a record; None for any other ARN."""
    for kind in _RESOURCES:
        prefix = make_arn(kind, "")
        if arn.lower().startswith(prefix):
            return kind, arn[len(prefix) :].lower()
    is_lineage = any(f":{word}/" in arn for word in ("artifact", "action", "context"))
    return (LineageEntity, arn.lower()) if is_lineage else None


@contextmanager
def refusing(word: str, name: str) -> Iterator[None]:
    """The store's refusals in the service's words.

    Raises:
        ApiFault: a missing record is ResourceNotFound. One that exists is a ValidationException
            with "already exists": the SDKs look for both.
    """
    try:
        yield
    except RecordMissing as error:
        raise resource_not_found(f"{word} '{name}' does not exist.") from error
    except RecordExists as error:
        raise validation(
            f"{word} names must be unique. {word} '{name}' already exists."
        ) from error


def make_run(name: str, **fields: Any) -> Run:  # noqa: ANN401 - the fields of a Run
    """A run that is new now."""
    now = time.time()
    whole = {"created": now, "modified": now, "id": uuid.uuid4().hex, **fields}
    return Run(name=name, **whole)


def add_experiment(store: RunStore, name: str, **fields: Any) -> Experiment:  # noqa: ANN401 - of an Experiment
    """A new experiment with the next free id; 0 is the default one's.

    Raises:
        RecordExists: there is one of this name.
    """
    now = time.time()
    with store.transaction():
        if name.lower() == DEFAULT_EXPERIMENT.lower():
            number = 0
        else:
            ids = [int(each.id) for each in store.read_all(Experiment)]
            number = max(ids, default=0) + 1
        made = replace(make_experiment(name, number), created=now, modified=now, **fields)
        store.add(made)
    return made


def read_experiment(store: RunStore, id_: str) -> Experiment:
    """An experiment by its id.

    Raises:
        RecordMissing: there is none.
    """
    if id_ != "0":
        return store.read_id(Experiment, id_)
    # An MLflow server has the default one from the beginning: here it is made when it is used.
    return find_or_add(
        store, Experiment, DEFAULT_EXPERIMENT, lambda: add_experiment(store, DEFAULT_EXPERIMENT)
    )


def make_experiment(name: str, number: int) -> Experiment:
    """A record, not kept yet."""
    place = f"s3://{DEFAULT_BUCKET}/mlflow/{number}"
    return Experiment(name=name, id=str(number), artifact_uri=place, created=0.0, modified=0.0)


def find_or_add(store: RunStore, kind: type[R], name: str, make: Callable[[], R]) -> R:
    """A record, made if there is none; of two callers at once one makes it."""
    with store.transaction():
        try:
            return store.read(kind, name)
        except RecordMissing:
            made = make()
            try:
                store.add(made)
            except RecordExists:  # `make` has added it
                return store.read(kind, name)
            return made


def join_trial(store: RunStore, trial: str, run: str) -> bool:
    """Make a run a member of a trial; False if it is one."""
    return store.link(
        Link(source=f"trial/{trial}", target=f"run/{run}", kind=MEMBER, created=time.time())
    )


def leave_trial(store: RunStore, trial: str, run: str) -> bool:
    """End a membership; False if there is none."""
    return store.unlink(f"trial/{trial}", f"run/{run}")


def is_created_within(created: float, params: Params) -> bool:
    """CreatedAfter and CreatedBefore."""
    after, before = params.get("CreatedAfter", created), params.get("CreatedBefore", created)
    return bool(after <= created <= before)


_MOST_TAGS = 50  # the service's limit


def read_tags(tags: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """From the API's list of pairs."""
    return {tag["Key"]: tag["Value"] for tag in tags}


def show_tags(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """As the API's list of pairs."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def list_tags(store: RunStore, arn: str) -> list[dict[str, str]]:
    """The tags of the record behind an ARN.

    Raises:
        ApiFault: there is no such record.
    """
    with refusing("Resource", arn):
        return show_tags(store.read(*_parse_tagged(arn)).tags)


def change_tags(
    store: RunStore, arn: str, change: Callable[[Mapping[str, str]], Mapping[str, str]]
) -> list[dict[str, str]]:
    """Change the tags of the record behind an ARN; returns the new ones.

    Raises:
        ApiFault: there is no such record, or it would have too many tags.
    """
    kind, name = _parse_tagged(arn)

    def replace_tags(record: Record) -> Record:
        tags = dict(change(record.tags))
        if len(tags) > _MOST_TAGS:
            raise validation(f"A resource may have {_MOST_TAGS} tags; '{name}' would have more.")
        return replace(record, tags=tags)

    with refusing("Resource", arn):
        return show_tags(store.change(kind, name, replace_tags).tags)


def _parse_tagged(arn: str) -> tuple[type[Record], str]:
    # Of any other ARN no record is found, and the caller's text is named.
    return parse_arn(arn) or (Experiment, arn)

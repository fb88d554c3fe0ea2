"""What a job is made from: its inputs, image, source code and checkpoint, with hashes."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from stoker.bus.run_file import GIT_VARIABLE, hash_folder, hash_listing, parse_git
from stoker.contract.code import CODE_CHANNEL
from stoker.errors import HostError
from stoker.platform.data.storage import Storage
from stoker.platform.jobs.context import JobContext
from stoker.platform.model.processing_request import PREFIX
from stoker.platform.model.request import TrainingRequest, parse_folder
from stoker.platform.tracking.lineage import make_entity
from stoker.platform.tracking.tracked import find_or_add, make_arn
from stoker.tracking.records import Artifact, LineageEntity, Link, Run
from stoker.tracking.store import RunStore

_CODE = "sagemaker_submit_directory"
MODEL = "SageMaker.ModelArtifact"


def read_lineage(request: TrainingRequest, context: JobContext) -> dict[str, Any]:
    """The facts as they are now, so best when the job begins: inputs may change later."""
    storage = context.storage
    inputs = {channel.name: channel.uri for channel in request.channels}
    lineage: dict[str, Any] = {
        "job": request.name.removeprefix(PREFIX),
        "image": describe_image(request.image, context),
        "inputs": hash_inputs(inputs, storage),
    }
    # `stoker train` sends the code as a channel, the SDKs as an archive.
    code = read_plain(request.hyperparameters.get(_CODE, ""))
    if isinstance(code, str) and code.startswith("s3://"):
        lineage["source_code"] = hash_objects(code, storage)
    elif CODE_CHANNEL in lineage["inputs"]:
        lineage["source_code"] = lineage["inputs"].pop(CODE_CHANNEL)
    if git := parse_git(request.environment.get(GIT_VARIABLE, "")):
        lineage["source_code"] = {**lineage.get("source_code", {"uri": ""}), **git}
    if request.checkpoint is not None:
        found = hash_objects(request.checkpoint.uri, storage)
        if found.get("objects"):
            lineage["resumed_from"] = found
    return lineage


def describe_image(image: str, context: JobContext) -> dict[str, str]:
    """An image by name and id."""
    return {"name": image, "digest": context.engine.image_digest(image)}


def hash_inputs(uris: Mapping[str, str], storage: Storage) -> dict[str, Any]:
    """Each input with one hash over all that is in it; those without an address are left out."""
    return {name: hash_objects(uri, storage) for name, uri in uris.items() if uri}


def link_inputs(store: RunStore, run: str, lineage: Mapping[str, Any]) -> None:
    """Put what a run is made from into the graph: data sets, code, checkpoint and image."""
    image = lineage.get("image")
    parts = [
        *(("DataSet", name, part) for name, part in lineage.get("inputs", {}).items()),
        ("SourceCode", "source code", lineage.get("source_code")),
        ("Checkpoint", "checkpoint", lineage.get("resumed_from")),
        ("Image", "image", {"uri": image["name"], "hash": image["digest"]} if image else None),
    ]
    for type_, title, part in parts:
        if part and part.get("uri"):
            arn = _find_artifact(store, type_, title, uri=part["uri"], hash_=part.get("hash", ""))
            _link(store, arn, make_arn(Run, run), "ContributedTo")


def link_outputs(store: RunStore, run: Run, outputs: Mapping[str, Artifact]) -> None:
    """Put what a job has made into the graph: its model, or data sets."""
    for name, artifact in outputs.items():
        is_model = name == MODEL
        type_, title = ("Model", "model") if is_model else ("DataSet", name)
        arn = _find_artifact(store, type_, title, uri=artifact.uri, hash_=run.source)
        _link(store, make_arn(Run, run.name), arn, "Produced")


def _find_artifact(store: RunStore, type_: str, title: str, *, uri: str, hash_: str) -> str:
    source = {
        "SourceUri": uri,
        "SourceTypes": [{"SourceIdType": "Custom", "Value": hash_ or "unknown"}],
    }
    made = make_entity("artifact", type_, source, title=title)
    return find_or_add(store, LineageEntity, made.name, lambda: made).name


def _link(store: RunStore, source: str, target: str, kind: str) -> None:
    store.link(Link(source=source, target=target, kind=kind, created=time.time()))


def read_plain(value: str) -> str | float:
    """A hyperparameter without the JSON around it, which SDK v2 adds; numbers as numbers."""
    try:
        plain = json.loads(value)
    except (ValueError, RecursionError):
        return value
    if isinstance(plain, bool) or not isinstance(plain, str | int | float):
        return value
    try:
        return plain if isinstance(plain, str) else float(plain)
    except OverflowError:
        return value


def hash_objects(uri: str, storage: Storage) -> dict[str, Any]:
    """One hash over the names and contents of everything under a prefix, or in a folder."""
    if folder := parse_folder(uri):
        return {"uri": uri, **hash_folder(folder)}
    listed = ((each.uri.key, each.etag, each.size_bytes) for each in storage.list(uri))
    try:
        return {"uri": uri, **hash_listing(listed)}
    except HostError as error:
        return {"uri": uri, "error": error.message}

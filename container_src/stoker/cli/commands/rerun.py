"""`stoker rerun`: submit the request of an earlier job again, with other parameters."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from typing import Any

from stoker.cli.client.platform_api import open_api
from stoker.cli.client.preflight import require_image
from stoker.cli.client.root_folder import root_folder
from stoker.cli.client.server import require_server
from stoker.cli.client.training_spec import (
    make_job_name,
    read_environ,
    read_max_run,
    read_params,
)
from stoker.cli.commands.train import create_and_watch, open_terminal
from stoker.platform.model.root import Root

# At the end of the names that `stoker train` and the SDKs make.
_TIME_OF_A_NAME = re.compile(r"-(\d{8}-\d{6}(-\d{3})?|\d{4}(-\d\d){5}-\d{3})$")


def run(args: argparse.Namespace) -> int:
    """Make the request; print it or carry it out."""
    root = Root(root_folder(args))
    changes = make_changes(args)
    server = require_server(root)
    api = open_api(root)
    request = make_request(api.read_request(args.job), changes)
    if args.dry_run:
        print(json.dumps(request, indent=1))
        return 0
    require_image(request["AlgorithmSpecification"].get("TrainingImage", ""), server.engine)
    name = request["TrainingJobName"]
    terminal = open_terminal(args)
    terminal.line(f"train: {name}, as {args.job}, engine: {server.engine} ({server.reason})")
    return create_and_watch(api, request, root=root, args=args, terminal=terminal)


def make_changes(args: argparse.Namespace) -> dict[str, Any]:
    """What differs from the earlier job, by the names of the request.

    Raises:
        UsageRefused: an option is not valid.
    """
    base = _TIME_OF_A_NAME.sub("", args.job)
    changes = {
        "TrainingJobName": make_job_name(args.name, base),
        "HyperParameters": read_params(args.param),
        "Environment": read_environ(args.env),
        "AlgorithmSpecification": {"TrainingImage": args.image} if args.image else {},
    }
    seconds = read_max_run(args.max_run)
    return {**changes, "StoppingCondition": {"MaxRuntimeInSeconds": seconds} if seconds else {}}


def make_request(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The request of the earlier job with the changes.

    Args:
        before: the earlier job's.
        changes: its new name, and what is merged into the parts of the request.
    """
    old, new = before["TrainingJobName"], changes["TrainingJobName"]
    request = {**before, "TrainingJobName": new}
    for part, change in changes.items():
        if part != "TrainingJobName" and change:
            request[part] = {**request.get(part, {}), **change}
    stopping = request.get("StoppingCondition", {})
    if "MaxWaitTimeInSeconds" in stopping:
        # CreateTrainingJob refuses a MaxWaitTime below MaxRuntime, which --max-run may have
        # raised.
        longest = max(stopping["MaxWaitTimeInSeconds"], stopping["MaxRuntimeInSeconds"])
        request["StoppingCondition"] = {**stopping, "MaxWaitTimeInSeconds": longest}
    if checkpoint := before.get("CheckpointConfig"):
        # A new run: it would resume from the end of the old one.
        parts = [new if part == old else part for part in checkpoint["S3Uri"].split("/")]
        request["CheckpointConfig"] = {**checkpoint, "S3Uri": "/".join(parts)}
    named = {"sagemaker_job_name": json.dumps(new)}  # as the SDKs write it
    parameters = request.get("HyperParameters", {})
    # Replaced only where the SDK had set it: `stoker train` sends none.
    kept = {name: named.get(name, value) for name, value in parameters.items()}
    return {**request, **({"HyperParameters": kept} if kept else {})}

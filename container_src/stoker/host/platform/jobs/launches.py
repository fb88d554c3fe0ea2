"""What is started for each host: a pure function of the request and its surroundings."""

from __future__ import annotations

import json
from collections.abc import Mapping

from stoker.contract.debugger import carries_rules, split_rules
from stoker.contract.stop import PLATFORM_VARIABLE
from stoker.host.platform.engines.engine import Launch, Mount, Network
from stoker.host.platform.jobs.describe import make_arn
from stoker.host.platform.jobs.surroundings import Surroundings
from stoker.host.platform.request import TrainingRequest
from stoker.host.platform.root import REGION

_PIECE_CHARACTERS = 32_768  # a line of Docker's --env-file holds twice as much


def run_name(job: str, host: str, attempt: int) -> str:
    """The engine's name for one run of one host."""
    return f"{job}-{host}-{attempt}"


def make_launch(
    request: TrainingRequest,
    host: str,
    *,
    attempt: int,
    around: Surroundings,
    network: Network,
    mounts: tuple[Mount, ...],
) -> Launch:
    """One host of one attempt."""
    return Launch(
        name=run_name(request.name, host, attempt),
        job=request.name,
        host=host,
        attempt=attempt,
        image=request.image,
        entrypoint=request.entrypoint,
        arguments=request.arguments or (),
        environment={
            **_platform_environment(request, around),
            **_own_environment(request),
            **(make_rules_variables(request) if host == request.hosts[0] else {}),
        },
        mounts=mounts,
        host_dir=around.root.host_dir(request.name, host),
        network=network,
        address=network.addresses.get(host),
        peers=network.addresses,
        isolated=request.isolated,
    )


def make_rules_variables(request: TrainingRequest) -> dict[str, str]:
    """The rules of a request as the leader's evaluator reads them: the API's shape, as JSON."""
    if not request.debug_rules:
        return {}
    rules = [
        {"RuleConfigurationName": rule.name, "RuleParameters": dict(rule.parameters)}
        for rule in request.debug_rules
    ]
    return split_rules(json.dumps(rules), limit_characters=_PIECE_CHARACTERS)


def _own_environment(request: TrainingRequest) -> dict[str, str]:
    """What the request sets. Of two lists of rules, the one that is described is evaluated."""
    if not request.debug_rules:
        return dict(request.environment)
    return {k: v for k, v in request.environment.items() if not carries_rules(k)}


def _platform_environment(request: TrainingRequest, around: Surroundings) -> Mapping[str, str]:
    job = {
        "TRAINING_JOB_NAME": request.name,
        "TRAINING_JOB_ARN": make_arn(request.name),
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        PLATFORM_VARIABLE: "1",
    }
    if request.isolated:  # as in the service: no credentials, and nobody to show them to
        return job
    return {
        **job,
        "AWS_ENDPOINT_URL_S3": f"http://{around.engine.s3_host()}:{around.s3_port}",
        "AWS_ACCESS_KEY_ID": around.credentials.access_key,
        "AWS_SECRET_ACCESS_KEY": around.credentials.secret_key,
        # The S3 server sends the whole object's checksum with a part of it, too.
        "AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required",
        "AWS_EC2_METADATA_DISABLED": "true",
    }

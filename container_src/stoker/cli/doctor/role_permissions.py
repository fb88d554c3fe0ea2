"""What the role of a job must be allowed, as IAM's own simulation evaluates its policies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from stoker.cli.doctor.finding import Finding
from stoker.cloud.account import Account
from stoker.cloud.log_line import LOG_GROUP
from stoker.cloud.refusals import make_statement
from stoker.cloud.settings import CloudSettings
from stoker.errors import HostError
from stoker.storage.s3 import split_uri

# As SageMaker's documentation lists them for the role of CreateTrainingJob.
_OBJECTS = ("s3:GetObject", "s3:PutObject")
_LOGS = (
    *("logs:CreateLogGroup", "logs:CreateLogStream"),
    *("logs:DescribeLogStreams", "logs:PutLogEvents"),
)
_PULL = ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")
_ANYWHERE = ("cloudwatch:PutMetricData", "ecr:GetAuthorizationToken")
_NETWORK = (
    *("ec2:CreateNetworkInterface", "ec2:CreateNetworkInterfacePermission"),
    *("ec2:DeleteNetworkInterface", "ec2:DeleteNetworkInterfacePermission"),
    *("ec2:DescribeDhcpOptions", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSecurityGroups"),
    *("ec2:DescribeSubnets", "ec2:DescribeVpcs"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class RolePermissions:
    """What is asked of a role."""

    account: Account
    settings: CloudSettings
    role_arn: str
    repository_arn: str
    """Of the image in ECR."""


def check_permissions(asked: RolePermissions) -> Iterator[Finding]:
    """One finding, with the statement for what the role may not do."""
    if asked.account.is_local:
        yield Finding(
            check="permissions", level="ok", text="the local platform does not ask the role"
        )
        return
    try:
        denied = {
            resource: missing
            for resource, actions in _needed(asked).items()
            if (missing := _find_denied(asked, actions, resource))
        }
    except HostError as error:
        yield Finding(
            check="permissions",
            level="warning",
            text=f"not examined: {error.message}",
            fix=error.fix,
        )
        return
    name = asked.role_arn.rpartition("/")[2]
    if not denied:
        text = f"{name} may read and write the bucket, pull the image and write logs"
        yield Finding(check="permissions", level="ok", text=f"{text}, as IAM simulates it")
        return
    actions = ", ".join(action for missing in denied.values() for action in missing)
    statements = ", ".join(make_statement(missing, place) for place, missing in denied.items())
    document = f'{{"Version": "2012-10-17", "Statement": [{statements}]}}'
    yield Finding(
        check="permissions",
        level="problem",
        text=f"{name} may not {actions}",
        fix=f"aws iam put-role-policy --role-name {name} --policy-name stoker-training"
        f" --policy-document '{document}'",
    )


def _needed(asked: RolePermissions) -> Mapping[str, Sequence[str]]:
    account = asked.account
    output = asked.settings.output
    bucket = split_uri(output)[0] if output else account.default_bucket
    # Not "aws": China and the government's regions are partitions of their own.
    partition = asked.role_arn.split(":")[1]
    logs = f"arn:{partition}:logs:{account.region}:{account.number}:log-group:{LOG_GROUP}:*"
    anywhere = (*_ANYWHERE, *(_NETWORK if asked.settings.subnets else ()))
    return {
        f"arn:{partition}:s3:::{bucket}": ("s3:ListBucket",),
        f"arn:{partition}:s3:::{bucket}/*": _OBJECTS,
        logs: _LOGS,
        asked.repository_arn: _PULL,
        "*": anywhere,
    }


def _find_denied(asked: RolePermissions, actions: Sequence[str], resource: str) -> list[str]:
    pages = asked.account.pages(
        "iam",
        "SimulatePrincipalPolicy",
        PolicySourceArn=asked.role_arn,
        ActionNames=list(actions),
        # A wildcard in the middle of an address is a letter to IAM: any object stands for all.
        ResourceArns=[re.sub(r"(?<=.)\*$", "stoker", resource)],
    )
    results = [result for page in pages for result in page["EvaluationResults"]]
    return sorted(r["EvalActionName"] for r in results if r["EvalDecision"] != "allowed")

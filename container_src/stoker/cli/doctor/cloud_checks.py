"""What stops a job on SageMaker, found before it costs anything; nothing is changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from stoker.cli.doctor.finding import Finding, Level
from stoker.cli.doctor.role_permissions import RolePermissions, check_permissions
from stoker.cloud.account import Account, trusts_sagemaker
from stoker.cloud.image import make_target
from stoker.cloud.refusals import NotThere, make_quota_command, make_statement
from stoker.cloud.settings import CloudSettings
from stoker.cost.price import find_price
from stoker.errors import HostError
from stoker.storage.s3 import split_uri

_ECR = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[\w-]+)\.amazonaws\.com(?:\.cn)?/"
    r"(?P<name>[^:@]+)"
)
_QUOTAS = ("training job usage", "spot training job usage", "training warm pool usage")
_TRUST = (
    '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"Service": '
    '"sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}]}'
)


@dataclass(frozen=True, kw_only=True, slots=True)
class CloudExamination:
    """What is looked at."""

    account: Account
    settings: CloudSettings
    instance_type: str
    image: str


def examine_cloud(examination: CloudExamination) -> list[Finding]:
    """All checks in the order in which a user should solve problems.

    Without an identity no other question has an answer, so the checks end there.
    """
    identity = _run("identity", partial(_check_identity, examination))
    if identity[0].level == "problem":
        return identity
    checks: Mapping[str, Callable[[CloudExamination], Iterator[Finding]]] = {
        "role": _check_role,
        "bucket": _check_bucket,
        "image": _check_image,
        "quota": _check_quotas,
        "logs": _check_logs,
        "price": _check_price,
    }
    found = [_run(name, partial(check, examination)) for name, check in checks.items()]
    return [*identity, *(finding for findings in found for finding in findings)]


def _run(name: str, check: Callable[[], Iterator[Finding]]) -> list[Finding]:
    try:
        return list(check())
    except HostError as error:
        return [Finding(check=name, level="problem", text=error.message, fix=error.fix)]


def _check_identity(examination: CloudExamination) -> Iterator[Finding]:
    account = examination.account
    text = f"{account.identity}, account {account.number}, region {account.region}"
    yield _ok("identity", text)


def _check_role(examination: CloudExamination) -> Iterator[Finding]:
    account = examination.account
    arn = account.find_role(examination.settings.role)
    name = arn.rpartition("/")[2]
    try:
        role = account.call("iam", "GetRole", RoleName=name)["Role"]
    except NotThere:
        yield _problem("role", f"there is no role {arn}", "pass an existing one: --role NAME")
        return
    if not trusts_sagemaker(role):
        yield _problem(
            "role",
            f"{name} does not trust sagemaker.amazonaws.com",
            f"aws iam update-assume-role-policy --role-name {name} --policy-document '{_TRUST}'",
        )
        return
    yield _ok("role", f"{arn} trusts SageMaker")
    yield from check_permissions(
        RolePermissions(
            account=account,
            settings=examination.settings,
            role_arn=role["Arn"],
            repository_arn=_repository_arn(examination, role["Arn"].split(":")[1]),
        )
    )


def _repository_arn(examination: CloudExamination, partition: str) -> str:
    account = examination.account
    if found := _ECR.match(examination.image):
        owner, name = found["account"], found["name"]
    else:
        target = make_target(examination.image, examination.settings.repository, registry="")
        owner, name = account.number, target.repository
    return f"arn:{partition}:ecr:{account.region}:{owner}:repository/{name}"


def _check_bucket(examination: CloudExamination) -> Iterator[Finding]:
    account = examination.account
    asked = examination.settings.output
    bucket = split_uri(asked)[0] if asked else account.default_bucket
    try:
        # Reading needs another permission than asking for the bucket's region: both are tried.
        account.call("s3", "ListObjectsV2", Bucket=bucket, MaxKeys=1)
        account.require_bucket(bucket)
    except HostError as error:
        if asked or "no such bucket" not in error.message:
            raise
        yield _ok("bucket", f"{bucket} is not there yet: the first job makes it")
        return
    yield _ok("bucket", f"{bucket} in {account.region} can be read")


def _check_image(examination: CloudExamination) -> Iterator[Finding]:
    account, image = examination.account, examination.image
    found = _ECR.match(image)
    if not found:
        yield _ok("image", f"{image} is a local name: it is pushed to ECR when a job is sent")
        return
    if found["region"] != account.region:
        yield _problem(
            "image",
            f"{image} is in {found['region']}, but jobs of {account.region} pull from there only",
            f"push it to {account.region}, or use --region {found['region']}",
        )
        return
    tag, digest = re.search(r":([\w.-]+)$", image), re.search(r"@(sha256:\w+)$", image)
    wanted = {"imageDigest": digest[1]} if digest else {"imageTag": tag[1] if tag else "latest"}
    where = {"registryId": found["account"], "repositoryName": found["name"]}
    account.call("ecr", "DescribeImages", imageIds=[wanted], **where)
    yield _ok("image", f"{image} is in ECR")


def _check_quotas(examination: CloudExamination) -> Iterator[Finding]:
    account, kind = examination.account, examination.instance_type
    if account.is_local:
        yield _ok("quota", "the local platform plays SageMaker: it has no quotas")
        return
    names = {f"{kind} for {what}": what for what in _QUOTAS}
    found: dict[str, Mapping[str, Any]] = {}
    for page in account.pages("service-quotas", "ListServiceQuotas", ServiceCode="sagemaker"):
        found.update({q["QuotaName"]: q for q in page["Quotas"] if q["QuotaName"] in names})
    for name, what in names.items():
        quota = found.get(name)
        if quota is None:
            yield _problem(
                "quota",
                f"{account.region} has no quota '{name}': it does not offer the type for that",
                "use another --instance-type or --region",
                level="problem" if what == _QUOTAS[0] else "warning",
            )
        elif quota["Value"] < 1:
            command = make_quota_command(name, 1, region=account.region, code=quota["QuotaCode"])
            is_needed = what == (_QUOTAS[1] if examination.settings.is_spot else _QUOTAS[0])
            yield _problem(
                "quota", f"'{name}' is 0", command, level="problem" if is_needed else "warning"
            )
        else:
            yield _ok("quota", f"'{name}' is {quota['Value']:g}")


def _check_logs(examination: CloudExamination) -> Iterator[Finding]:
    try:
        examination.account.call(
            "logs", "DescribeLogStreams", logGroupName="/aws/sagemaker/TrainingJobs", limit=1
        )
    except NotThere:
        pass  # no job has run yet
    except HostError as error:
        statements = " and ".join(
            make_statement(f"logs:{name}") for name in ("DescribeLogStreams", "GetLogEvents")
        )
        yield _problem("logs", error.message, f"to follow jobs: {statements}", level="warning")
        return
    yield _ok("logs", "the logs of jobs can be read")


def _check_price(examination: CloudExamination) -> Iterator[Finding]:
    region, kind = examination.account.region, examination.instance_type
    price = find_price(kind, region)
    if price is None:
        text = f"no price is known of {kind} in {region}"
        fix = f"stoker prices update --region {region}"
        yield _problem("price", text, fix, level="warning")
    else:
        yield _ok("price", f"{kind}: {price.show_source()}")


def _ok(check: str, text: str) -> Finding:
    return Finding(check=check, level="ok", text=text)


def _problem(check: str, text: str, fix: str, *, level: Level = "problem") -> Finding:
    return Finding(check=check, level=level, text=text, fix=fix)

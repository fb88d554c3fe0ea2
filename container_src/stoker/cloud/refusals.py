"""What AWS answers instead of a result, as one of our own errors: with the exact fix.

Pure: codes and texts come in, an error goes out. The codes are the services' own; which of them
mean the same is known from AWS's documentation and from recorded answers (tests/data/aws).
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stoker.errors import HostError
from stoker.machine.failures import UsageRefused


class NotThere(UsageRefused):
    """The service does not have what was named."""


class ConnectionLost(HostError):
    """AWS cannot be reached now, or asks for patience: the same call may succeed later."""


class PermissionMissing(HostError):
    """The caller may not do this."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """An error of a service, or of boto3 before a service was asked (its class is the code)."""

    service: str
    operation: str
    code: str
    message: str
    region: str
    identity: str = ""
    """The ARN of the caller, where it is known."""

    subject: str = ""
    """The name that was asked for, such as a job's; empty if there is none."""

    @property
    def what(self) -> str:
        """The subject, or a word in its place."""
        return self.subject or "it"


_QUOTA = re.compile(
    r"account-level service limit '(?P<name>[^']+)' is (?P<limit>[\d.]+) Instances,"
    r" with current utilization of (?P<used>[\d.]+) Instances"
    r" and a request delta of (?P<delta>[\d.]+)"
)
_DENIED = re.compile(r"not authorized to perform: (?P<action>[\w-]+:\w+)")
_ON = re.compile(r"on resource: (?P<resource>\S+)")
_WHO = re.compile(r"User: (?P<who>\S+) is not")


def explain(refusal: Refusal) -> HostError:
    """The error that says what happened, what was expected and how to fix it."""
    if make := _MEANINGS.get(refusal.code):
        return make(refusal)
    return HostError(
        f"{refusal.operation} of {refusal.service} failed: {refusal.code}: {refusal.message}",
        fix="see the message; `stoker doctor --on sagemaker` looks for what stops a job",
    )


def explain_failure_reason(reason: str, *, region: str) -> str:
    """The fix for a job that SageMaker itself ended; empty if the reason is the script's."""
    if "CapacityError" in reason or "insufficient capacity" in reason.lower():
        return (
            "try again later, another --instance-type or --region, several types in order of "
            "preference: --prefer TYPE,TYPE (with --max-pending 2h it waits), or a training plan"
        )
    if "CannotStartContainerError" in reason:
        return "the image needs a program `train` on PATH: stoker check IMAGE"
    if "ImageNotFound" in reason or "does not exist in the repository" in reason:
        return "push the image: stoker train … --image LOCALNAME pushes it by its digest"
    if "AccessDenied" in reason or "not authorized" in reason:
        return f"the job's role lacks a permission: stoker doctor --on sagemaker --region {region}"
    return ""


def make_quota_command(name: str, wanted: float, *, region: str, code: str = "") -> str:
    """The command line that asks AWS for a higher quota.

    Args:
        name: as Service Quotas has it: "ml.g5.xlarge for training job usage".
        wanted: the new value.
        region: the quota's.
        code: of the quota, such as L-3F53BF0F; looked up by the command if it is not known.
    """
    query = f"Quotas[?QuotaName=='{name}'].QuotaCode"
    found = ["aws", "service-quotas", "list-service-quotas", "--service-code", "sagemaker"]
    found += ["--region", region, "--query", query, "--output", "text"]
    given = code or f'"$({shlex.join(found)})"'
    return (
        "aws service-quotas request-service-quota-increase --service-code sagemaker"
        f" --quota-code {given} --desired-value {wanted:g} --region {region}"
    )


def make_statement(action: str | Sequence[str], resource: str = "*") -> str:
    """The statement of an IAM policy that allows an action, or several."""
    named = action if isinstance(action, str) else list(action)
    return json.dumps({"Effect": "Allow", "Action": named, "Resource": resource})


def _explain_quota(refusal: Refusal) -> HostError:
    found = _QUOTA.search(refusal.message)
    if not found:
        return HostError(
            f"SageMaker's limit is reached: {refusal.message}",
            fix="wait until a job ends, or ask for more: AWS Service Quotas, Amazon SageMaker",
        )
    used, delta = float(found["used"]), float(found["delta"])
    command = make_quota_command(found["name"], used + delta, region=refusal.region)
    return HostError(
        f"the quota '{found['name']}' in {refusal.region} is {found['limit']}; {used:g} are in use"
        f" and this needs {delta:g} more",
        fix=f"use another --instance-type or --region, or ask AWS:\n    {command}",
    )


def _explain_denied(refusal: Refusal) -> HostError:
    denied, on = _DENIED.search(refusal.message), _ON.search(refusal.message)
    action = denied["action"] if denied else _guess_action(refusal)
    resource = on["resource"].rstrip(".,") if on else "*"
    who = _WHO.search(refusal.message)
    identity = who["who"] if who else refusal.identity or "this identity"
    hint = ""
    if action == "iam:PassRole":
        hint = ' with "Condition": {"StringEquals": {"iam:PassedToService": '
        hint += '"sagemaker.amazonaws.com"}}'
    return PermissionMissing(
        f"{identity} may not {action}"
        + (f" on {resource}" if resource != "*" else "")
        + f": {refusal.message}",
        fix=f"add this statement to its policy{hint}:\n    {make_statement(action, resource)}",
    )


def _guess_action(refusal: Refusal) -> str:
    if refusal.service == "s3":
        names = {
            "HeadObject": "GetObject",
            "ListObjectsV2": "ListBucket",
            "CopyObject": "PutObject",
        }
        names |= {"HeadBucket": "ListBucket"}
        return f"s3:{names.get(refusal.operation, refusal.operation)}"
    # IAM's own name of Service Quotas.
    service = {"service-quotas": "servicequotas"}.get(refusal.service, refusal.service)
    return f"{service}:{refusal.operation}"


def _explain_validation(refusal: Refusal) -> HostError:
    # The service lists every value that it knows: hundreds of instance types.
    text = re.sub(r"(enum value set: \[[^\]]{80})[^\]]*\]", r"\1 …]", refusal.message)
    # Two ways of the service to say that there is no such job.
    if re.search(r"Requested resource not found|Could not find|does not exist", text):
        return NotThere(
            f"{refusal.service} in {refusal.region} does not have {refusal.what}: {text}",
            fix="check name and region; a job that was deleted is not kept anywhere",
        )
    if "Could not assume role" in text or "assume the role" in text.lower():
        return UsageRefused(
            f"SageMaker cannot use the role: {text}",
            fix="its trust policy must allow sts:AssumeRole to sagemaker.amazonaws.com:"
            " stoker doctor --on sagemaker --role ROLE",
        )
    if re.search(r"is in status (Completed|Failed|Stopped)", text):
        return UsageRefused(
            f"{refusal.what} cannot be stopped: {text}", fix="nothing: it has ended"
        )
    if "No S3 objects found" in text:
        return UsageRefused(
            f"a channel has no data: {text}", fix="check the s3:// address of the channel"
        )
    if "instanceType" in text or "InstanceType" in text:
        return UsageRefused(
            f"SageMaker does not accept the instance type: {text}",
            fix=f"stoker doctor --on sagemaker --region {refusal.region} --instance-type TYPE",
        )
    return UsageRefused(
        f"{refusal.service} does not accept the request: {text}",
        fix="change the option that the message is about; see the request: --dry-run",
    )


def _explain_signature(refusal: Refusal) -> HostError:
    # One of the wrong time has the same codes as one by the wrong key.
    is_late = re.search(r"Signature (expired|not yet current)", refusal.message)
    return (_CLOCK if is_late else _KEYS).explain(refusal)


def _explain_no_repository(refusal: Refusal) -> HostError:
    name = re.search(r"repository with name '([^']+)'", refusal.message)
    return UsageRefused(
        f"ECR in {refusal.region} has no such repository: {refusal.message}",
        fix="aws ecr create-repository --repository-name"
        f" {name[1] if name else 'NAME'} --region {refusal.region}",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Meaning:
    """What a code means where only names have to be filled in; `{r}` is the refusal."""

    kind: type[HostError]
    text: str
    fix: str

    def explain(self, refusal: Refusal) -> HostError:
        return self.kind(self.text.format(r=refusal), fix=self.fix.format(r=refusal))


_CLOCK = _Meaning(
    kind=HostError,
    text="AWS refuses the time of the request: {r.message}",
    fix="set this machine's clock: timedatectl set-ntp true (a laptop may have slept)",
)
_KEYS = _Meaning(
    kind=UsageRefused,
    text="AWS does not know these credentials: {r.code}: {r.message}",
    fix="aws sts get-caller-identity shows who you are; AWS_PROFILE chooses another profile,"
    " and variables AWS_ACCESS_KEY_ID… win over it",
)
_EXPIRED = _Meaning(
    kind=UsageRefused,
    text="the credentials have expired: {r.message}",
    fix="aws sso login (with the profile), or get new temporary credentials, then the same"
    " command again: what was uploaded is not sent again",
)
_NO_KEYS = _Meaning(
    kind=UsageRefused,
    text="there are no credentials for AWS: {r.message}",
    fix="aws configure sso, or set AWS_PROFILE",
)
_NO_REGION = _Meaning(
    kind=UsageRefused,
    text="no AWS region is configured",
    fix="pass --region, or set AWS_DEFAULT_REGION or region in ~/.aws/config",
)
_ELSEWHERE = _Meaning(
    kind=UsageRefused,
    text="the bucket is in another region than {r.region}: {r.message}",
    fix="jobs read buckets of their own region only: pass the bucket's --region, or"
    " --output s3://… in a bucket of this one",
)
_THROTTLED = _Meaning(
    kind=ConnectionLost,
    text="{r.service} asks to be called less often: {r.message}",
    fix="wait a minute, then the same command again",
)
_UNREACHABLE = _Meaning(
    kind=ConnectionLost,
    text="{r.service} in {r.region} cannot be reached: {r.message}",
    fix="check the network, HTTPS_PROXY, AWS_ENDPOINT_URL and the name of the region",
)
_NO_BUCKET = _Meaning(
    kind=UsageRefused,
    text="there is no such bucket: {r.message}",
    fix="check the s3:// address, or make it: aws s3 mb s3://BUCKET --region {r.region}",
)
_NO_PROFILE = _Meaning(
    kind=UsageRefused, text="{r.message}", fix="aws configure list-profiles shows those that exist"
)
_BAD_SETTING = _Meaning(
    kind=UsageRefused,
    text="a setting for AWS is not valid: {r.message}",
    fix="correct the file, ~/.aws/config unless AWS_CONFIG_FILE names another one",
)
_MISSING = _Meaning(
    kind=NotThere,
    text="{r.service} in {r.region} does not have {r.what}: {r.message}",
    fix="check the name and --region",
)
_NOT_SERVED = _Meaning(
    kind=UsageRefused,
    text="{r.operation} is not served here: {r.message}",
    fix="leave the option out that needs it, or unset AWS_ENDPOINT_URL to reach AWS",
)
_IN_USE = _Meaning(kind=UsageRefused, text="{r.message}", fix="choose another --name")

_BY_CODES: tuple[tuple[str, Callable[[Refusal], HostError]], ...] = (
    ("ResourceLimitExceeded", _explain_quota),
    ("AccessDenied AccessDeniedException UnauthorizedOperation 403 Forbidden", _explain_denied),
    ("ValidationException ValidationError ParamValidationError", _explain_validation),
    ("ExpiredToken ExpiredTokenException RequestExpired TokenRefreshRequired", _EXPIRED.explain),
    ("SSOTokenLoadError UnauthorizedSSOTokenError TokenRetrievalError", _EXPIRED.explain),
    ("InvalidClientTokenId UnrecognizedClientException InvalidAccessKeyId", _KEYS.explain),
    ("AuthFailure", _KEYS.explain),
    ("SignatureDoesNotMatch InvalidSignatureException", _explain_signature),
    ("RequestTimeTooSkewed", _CLOCK.explain),
    ("Throttling ThrottlingException ThrottledException", _THROTTLED.explain),
    ("TooManyRequestsException SlowDown RequestLimitExceeded", _THROTTLED.explain),
    ("EndpointConnectionError ConnectTimeoutError ReadTimeoutError", _UNREACHABLE.explain),
    ("SSLError ConnectionClosedError ProxyConnectionError", _UNREACHABLE.explain),
    ("HTTPClientError ServiceUnavailable ServiceUnavailableException", _UNREACHABLE.explain),
    ("InternalFailure InternalServerException InternalError 500 503", _UNREACHABLE.explain),
    ("NoCredentialsError PartialCredentialsError CredentialRetrievalError", _NO_KEYS.explain),
    ("NoRegionError InvalidRegionError", _NO_REGION.explain),
    ("PermanentRedirect AuthorizationHeaderMalformed 301", _ELSEWHERE.explain),
    ("IllegalLocationConstraintException", _ELSEWHERE.explain),
    ("NoSuchBucket", _NO_BUCKET.explain),
    ("RepositoryNotFoundException", _explain_no_repository),
    ("ConfigParseError ConfigNotFound InvalidConfigError", _BAD_SETTING.explain),
    ("ProfileNotFound", _NO_PROFILE.explain),
    ("ResourceNotFound ResourceNotFoundException NoSuchEntity", _MISSING.explain),
    ("NoSuchKey 404 ImageNotFoundException NoSuchResourceException", _MISSING.explain),
    ("ResourceInUse", _IN_USE.explain),
    ("UnknownOperationException UnknownOperation", _NOT_SERVED.explain),
)
_MEANINGS = {code: make for codes, make in _BY_CODES for code in codes.split()}

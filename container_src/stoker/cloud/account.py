"""An account of AWS: clients, who the caller is, its bucket, roles and quotas.

Every call goes through `Account.call`, so every error is translated (refusals.py) and throttling
is met with the same patience. botocore is imported when the first client is made.
"""

from __future__ import annotations

import difflib
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from stoker.cloud.refusals import NotThere, Refusal, explain
from stoker.errors import HostError
from stoker.machine.aws import aws_errors, import_module
from stoker.machine.aws_settings import read_region
from stoker.machine.environment import read_environment
from stoker.machine.failures import UsageRefused

Result = TypeVar("Result")
SAGEMAKER = "sagemaker.amazonaws.com"
_TRIES = 6
_TIMEOUT_SECONDS = 30
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_NAMES = {"monitoring": "cloudwatch"}


class Account:
    """One account in one region, as the environment's AWS settings reach it."""

    def __init__(self, *, region: str | None = None) -> None:
        self._asked_region = region
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()

    @cached_property
    def session(self) -> Any:  # noqa: ANN401 - botocore publishes no types
        """A session of botocore: boto3's takes 30 ms more, for what is not needed here."""
        return import_module("botocore.session").get_session()

    @cached_property
    def region(self) -> str:
        """The region of all calls.

        Raises:
            UsageRefused: none is configured.
        """
        region = self._asked_region or read_region(read_environment())
        if not region:
            get = self.session.get_config_variable
            region = self._translated("sts", "Session", lambda: get("region"))
        if not region:
            raise explain(
                Refusal(
                    service="sts",
                    operation="Session",
                    code="NoRegionError",
                    message="",
                    region="?",
                )
            )
        return str(region)

    @cached_property
    def identity(self) -> str:
        """The ARN of the caller."""
        return str(self._who["Arn"])

    @property
    def number(self) -> str:
        """The number of the account."""
        return str(self._who["Account"])

    @cached_property
    def _who(self) -> Mapping[str, Any]:
        return self.call("sts", "GetCallerIdentity")

    @property
    def default_bucket(self) -> str:
        """The bucket that both SDKs use, too."""
        return f"sagemaker-{self.region}-{self.number}"

    @property
    def is_local(self) -> bool:
        """Whether SageMaker's endpoint is on this machine: a local platform plays the service."""
        return urlsplit(self.client("sagemaker").meta.endpoint_url).hostname in _LOOPBACK

    def client(self, service: str) -> Any:  # noqa: ANN401 - as above
        """The client of a service, made once."""
        name = _NAMES.get(service, service)
        with self._lock:  # making a client is not safe in threads
            if name not in self._clients:
                made = self._translated(name, "client", lambda: self._make_client(name))
                self._clients[name] = made
            return self._clients[name]

    def call(self, service: str, operation: str, **parameters: object) -> dict[str, Any]:
        """One operation, named as in the API.

        Raises:
            HostError: AWS refuses or cannot be reached; translated.
        """
        method = getattr(self.client(service), _method_name(operation))
        answer: dict[str, Any] = self._translated(
            service, operation, lambda: method(**parameters), subject=_find_subject(parameters)
        )
        return answer

    def pages(
        self, service: str, operation: str, **parameters: object
    ) -> Iterator[dict[str, Any]]:
        """All pages of a list.

        Raises:
            HostError: as for `call`.
        """
        client = self.client(service)
        pages = iter(client.get_paginator(_method_name(operation)).paginate(**parameters))
        while True:
            page = self._translated(service, operation, lambda: next(pages, None))
            if page is None:
                return
            yield page

    def require_bucket(self, bucket: str) -> None:
        """Make the default bucket if it is not there; any other one must be.

        Raises:
            HostError: the bucket is another account's, in another region, or not there.
        """
        try:
            answer = self.call("s3", "HeadBucket", Bucket=bucket, **self._owner(bucket))
        except NotThere:
            if bucket != self.default_bucket:
                raise self._refuse_bucket("NoSuchBucket", bucket) from None
            self._make_bucket(bucket)
            return
        where = answer.get("BucketRegion") or self.region
        if where != self.region and not self.is_local:
            raise self._refuse_bucket("PermanentRedirect", f"{bucket} is in {where}")

    def _refuse_bucket(self, code: str, message: str) -> HostError:
        return explain(
            Refusal(
                service="s3",
                operation="HeadBucket",
                code=code,
                message=message,
                region=self.region,
            )
        )

    def _owner(self, bucket: str) -> dict[str, str]:
        # Everyone can guess the name of the usual bucket, and make it first in another account.
        return {"ExpectedBucketOwner": self.number} if bucket == self.default_bucket else {}

    def describe_unknown_types(self, instance_types: Iterable[str]) -> Iterator[str]:
        """A remark for each type that this version of boto3 does not know; AWS may know it."""
        model = self.client("sagemaker").meta.service_model
        known = model.shape_for("TrainingInstanceType").enum
        for kind in sorted(set(instance_types) - set(known)):
            near = difflib.get_close_matches(kind, known, n=2)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            yield f"{kind} is not an instance type that this boto3 knows{hint}"

    def _make_bucket(self, bucket: str) -> None:
        place = {"LocationConstraint": self.region}
        # us-east-1 is the one region that must not be named.
        extra = {} if self.region == "us-east-1" else {"CreateBucketConfiguration": place}
        self.call("s3", "CreateBucket", Bucket=bucket, **extra)

    def find_role(self, asked: str | None) -> str:
        """The ARN of the role that the job is given.

        Args:
            asked: an ARN, the name of a role, or None: the only role that trusts SageMaker.

        Raises:
            UsageRefused: none fits, or several.
        """
        if asked and asked.startswith("arn:"):
            return asked
        if asked:
            return str(self.call("iam", "GetRole", RoleName=asked)["Role"]["Arn"])
        roles = [role for role in self.list_roles() if trusts_sagemaker(role)]
        # Service-linked roles trust SageMaker, too, but no job may be given one.
        usual = [role for role in roles if "/aws-service-role/" not in role["Arn"]]
        if len(usual) == 1:
            return str(usual[0]["Arn"])
        names = ", ".join(sorted(role["RoleName"] for role in usual)[:8])
        raise UsageRefused(
            f"{len(usual)} roles of this account trust SageMaker: {names or 'none'}",
            fix="pass --role NAME, or write it as RoleArn into the SDKs' config.yaml"
            if usual
            else "make a role that sagemaker.amazonaws.com may assume, and pass --role ARN",
        )

    def list_roles(self) -> Iterator[dict[str, Any]]:
        """All roles of the account."""
        for page in self.pages("iam", "ListRoles"):
            yield from page["Roles"]

    def _make_client(self, name: str) -> Any:  # noqa: ANN401 - as above
        from botocore.config import Config

        config = Config(
            retries={"mode": "standard", "total_max_attempts": _TRIES},
            connect_timeout=_TIMEOUT_SECONDS,
            read_timeout=2 * _TIMEOUT_SECONDS,
            max_pool_connections=32,
        )
        return self.session.create_client(name, region_name=self.region, config=config)

    def _translated(
        self, service: str, operation: str, do: Callable[[], Result], *, subject: str = ""
    ) -> Result:
        try:
            return do()
        except aws_errors() as error:
            refusal = replace(self._read_error(error, service, operation), subject=subject)
            if refusal.code == "EndpointConnectionError":
                hint = self._describe_unknown_region(refusal.region)
                refusal = replace(refusal, message=f"{refusal.message}{hint}")
            raise explain(refusal) from error
        # botocore's own checks of what it is given raise these: an address, a file of a token.
        except (ValueError, FileNotFoundError) as error:
            raise UsageRefused(
                f"a setting for AWS is not valid: {error}",
                fix="correct it: AWS_ENDPOINT_URL, AWS_CONFIG_FILE and the other AWS_ variables",
            ) from error

    def _describe_unknown_region(self, region: str) -> str:
        """What to add to a failure to connect; AWS may have regions that this boto3 has not."""
        known = [
            name
            for partition in self.session.get_available_partitions()
            for name in self.session.get_available_regions("sagemaker", partition)
        ]
        if region in known or region == "?":
            return ""
        near = difflib.get_close_matches(region, known, n=2)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        return f" {region} is not a region that this boto3 knows{hint}"

    def _read_error(self, error: Exception, service: str, operation: str) -> Refusal:
        answer = getattr(error, "response", None)
        said = answer.get("Error", {}) if isinstance(answer, dict) else {}
        return Refusal(
            service=service,
            operation=operation,
            code=str(said.get("Code", type(error).__name__)),
            message=str(said.get("Message", error)),
            # Not self.region and self.identity: they may be what failed.
            region=self.__dict__.get("region") or self._asked_region or "?",
            identity=self.__dict__.get("_who", {}).get("Arn", ""),
        )


def trusts_sagemaker(role: Mapping[str, Any]) -> bool:
    """Whether SageMaker may assume a role, as ListRoles and GetRole describe it."""
    document = role.get("AssumeRolePolicyDocument") or {}
    if isinstance(document, str):
        document = json.loads(unquote(document))
    statements = document.get("Statement", [])
    for each in statements if isinstance(statements, list) else [statements]:
        principal = each.get("Principal", {})
        services = principal.get("Service", []) if isinstance(principal, dict) else []
        named = [services] if isinstance(services, str) else services
        if each.get("Effect") == "Allow" and SAGEMAKER in named:
            return True
    return False


def _find_subject(parameters: Mapping[str, object]) -> str:
    """What an operation is about: the value of TrainingJobName, RoleName, repositoryName, …"""
    names = (value for key, value in parameters.items() if key.endswith(("Name", "name")))
    return next((value for value in names if isinstance(value, str)), "")


def _method_name(operation: str) -> str:
    from botocore import xform_name

    return str(xform_name(operation))

"""Who the user is (sts) and what a role may do (iam), as far as the SDKs ask."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from urllib.parse import quote

from stoker.platform.api.query_protocol import Value, members
from stoker.platform.model.faults import ApiFault
from stoker.platform.model.root import ACCOUNT

_FORBIDDEN = 403
_LONG_AGO = "2020-01-01T00:00:00Z"
_TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": "sagemaker.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
    ],
}

Form = Mapping[str, str]


def answer(service: str, action: str, form: Form) -> Mapping[str, Value]:
    """The result of one action.

    Raises:
        ApiFault: AccessDenied for whatever is not emulated; SDK v3 then warns and goes on.
    """
    known = _ACTIONS.get((service, action))
    if known is None:
        raise ApiFault(
            "AccessDenied",
            f"{service}:{action} is not emulated by the local platform.",
            status=_FORBIDDEN,
        )
    return known(form)


def _caller(_form: Form) -> Mapping[str, Value]:
    return {
        "Arn": f"arn:aws:iam::{ACCOUNT}:user/stoker",
        "UserId": "AIDASTOKERLOCALUSER00",
        "Account": ACCOUNT,
    }


def _role(form: Form) -> Mapping[str, Value]:
    name = form.get("RoleName", "")
    return {
        "Role": {
            "Path": "/",
            "RoleName": name,
            "RoleId": "AROASTOKERLOCALROLE00",
            "Arn": f"arn:aws:iam::{ACCOUNT}:role/{name}",
            "CreateDate": _LONG_AGO,
            "AssumeRolePolicyDocument": quote(json.dumps(_TRUST), safe=""),
        }
    }


def _simulation(form: Form) -> Mapping[str, Value]:
    """Every role may do everything here: there is nobody to protect from."""
    resources = members(form, "ResourceArns") or ["*"]
    return {
        "IsTruncated": "false",
        "EvaluationResults": [
            {
                "EvalActionName": action,
                "EvalResourceName": resource,
                "EvalDecision": "allowed",
            }
            for action in members(form, "ActionNames")
            for resource in resources
        ],
    }


_ACTIONS: Mapping[tuple[str, str], Callable[[Form], Mapping[str, Value]]] = {
    ("sts", "GetCallerIdentity"): _caller,
    ("iam", "GetRole"): _role,
    ("iam", "SimulatePrincipalPolicy"): _simulation,
}

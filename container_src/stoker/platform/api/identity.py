"""Who the user is (sts, notebook instance) and what a role may do (iam), as far as SDKs ask."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from stoker.platform.api.query_protocol import QueryProtocol, Value, members
from stoker.platform.api.service import Service
from stoker.platform.model.faults import validation
from stoker.platform.model.root import ACCOUNT, NOTEBOOK_NAME, REGION, ROLE_ARN, ROLE_NAME

# AROA is what the ids of AWS's roles begin with.
_ROLE_ID = "AROASTOKERLOCALROLE00"
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


def _caller(_form: Form) -> Mapping[str, Value]:
    return {
        # An assumed role: SDK v3 takes it as the role of jobs that name none.
        "Arn": f"arn:aws:sts::{ACCOUNT}:assumed-role/{ROLE_NAME}/stoker",
        "UserId": f"{_ROLE_ID}:stoker",
        "Account": ACCOUNT,
    }


def _role(form: Form) -> Mapping[str, Value]:
    name = form.get("RoleName", "")
    return {
        "Role": {
            "Path": "/",
            "RoleName": name,
            "RoleId": _ROLE_ID,
            "Arn": f"arn:aws:iam::{ACCOUNT}:role/{name}",
            "CreateDate": _LONG_AGO,
            "AssumeRolePolicyDocument": quote(json.dumps(_TRUST), safe=""),
        }
    }


def _simulation(form: Form) -> Mapping[str, Value]:
    """Every role may do everything here: there is no other user to protect from."""
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


def describe_notebook(params: dict[str, Any]) -> Mapping[str, Any]:
    """The instance that the SDKs ask for the execution role; there is no other.

    Raises:
        ApiFault: another one is asked for.
    """
    name = params["NotebookInstanceName"]
    if name != NOTEBOOK_NAME:
        raise validation("RecordNotFound")
    return {
        "NotebookInstanceArn": f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:notebook-instance/{name}",
        "NotebookInstanceName": name,
        "NotebookInstanceStatus": "InService",
        "RoleArn": ROLE_ARN,
    }


STS = Service(
    name="sts",
    protocol=QueryProtocol(namespace="https://sts.amazonaws.com/doc/2011-06-15/"),
    operations={"GetCallerIdentity": _caller},
)
IAM = Service(
    name="iam",
    protocol=QueryProtocol(namespace="https://iam.amazonaws.com/doc/2010-05-08/"),
    operations={"GetRole": _role, "SimulatePrincipalPolicy": _simulation},
)

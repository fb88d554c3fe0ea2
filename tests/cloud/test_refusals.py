"""What AWS answers, and what the user reads: the fix is a command or a statement to paste."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stoker.cloud.refusals import Refusal, explain, explain_failure_reason, make_quota_command
from stoker.errors import HostError

# Answers of the services as their documentation and public issue threads have them, with what
# the error must contain.
RECORDED = json.loads((Path(__file__).parents[1] / "data/aws/refusals.json").read_text())


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case["code"] + "-" + case["service"])
def test_a_recorded_answer_is_explained_with_its_fix(case):
    refusal = Refusal(
        service=case["service"],
        operation=case["operation"],
        code=case["code"],
        message=case["message"],
        region="eu-west-1",
    )
    error = explain(refusal)
    assert isinstance(error, HostError)
    assert error.fix
    for text in case["expected"]:
        assert text in str(error)


def test_an_unknown_answer_keeps_every_word_of_the_service():
    error = explain(
        Refusal(service="s3", operation="PutObject", code="Odd", message="why", region="r")
    )
    assert "PutObject of s3 failed: Odd: why" in str(error)


@pytest.mark.parametrize(
    ("reason", "fix"),
    [
        ("CapacityError: Unable to provision requested ML compute capacity.", "--prefer"),
        ("AlgorithmError: exit code 1", ""),
        ("ClientError: Cannot start: CannotStartContainerError", "stoker check"),
    ],
)
def test_a_job_that_the_service_ended_gets_a_fix_and_a_failed_script_does_not(reason, fix):
    found = explain_failure_reason(reason, region="r")
    assert fix in found
    assert bool(found) == bool(fix)


def test_the_quota_command_looks_up_a_code_that_is_not_known():
    name = "ml.g5.xlarge for training job usage"
    command = make_quota_command(name, 2, region="us-east-1")
    assert "list-service-quotas" in command
    assert "--desired-value 2 --region us-east-1" in command
    known = make_quota_command(name, 2, region="us-east-1", code="L-1")
    assert "--quota-code L-1 " in known

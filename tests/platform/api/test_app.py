"""One address for all services, each in its own protocol, spoken to by stock boto3."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
import time
import urllib.error
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore.exceptions import ClientError

from stoker.platform.api.app import Gate
from stoker.platform.model import faults
from stoker.platform.model.faults import ApiFault
from stoker.platform.model.root import Credentials
from tests.platform.api.api_server import DEADLINE_SECONDS, KEYS, running_api

NOWHERE = "127.0.0.1:1"


@pytest.fixture
def wire():
    with running_api(NOWHERE) as server:
        yield server


def refusal(call, **params):
    with pytest.raises(ClientError) as caught:
        call(**params)
    answer = caught.value.response
    error = answer["Error"]
    return error["Code"], error["Message"], answer["ResponseMetadata"]["HTTPStatusCode"]


def test_a_call_reaches_the_operations_and_their_answer_the_client(wire):
    wire.operations.answer = lambda: {
        "TrainingJobSummaries": [
            {
                "TrainingJobName": "größe",
                "TrainingJobArn": "arn",
                "CreationTime": 1794786900.125,
                "TrainingJobStatus": "Completed",
            }
        ]
    }
    answer = wire.boto("sagemaker").list_training_jobs(MaxResults=3, NameContains="x")
    assert wire.operations.calls == [
        ("sagemaker", "ListTrainingJobs", {"MaxResults": 3, "NameContains": "x"})
    ]
    (job,) = answer["TrainingJobSummaries"]
    assert job["TrainingJobName"] == "größe"
    assert job["CreationTime"].timestamp() == 1794786900.125


def test_a_fault_keeps_its_code_text_and_status(wire):
    def refuse():
        raise faults.resource_in_use("there is one")

    wire.operations.answer = refuse
    stop = wire.boto("sagemaker").stop_training_job
    assert refusal(stop, TrainingJobName="j") == ("ResourceInUse", "there is one", 400)


def test_a_failure_of_ours_is_named_in_the_log_and_not_explained_to_the_client(wire, caplog):
    wire.operations.answer = lambda: {"Tags": object()}
    arn = "arn:aws:sagemaker:us-east-1:000000000000:training-job/j"
    code, text, status = refusal(wire.boto("sagemaker").list_tags, ResourceArn=arn)
    assert (code, status) == ("InternalFailure", 500)
    assert "object" not in text
    (record,) = [r for r in caplog.records if r.exc_info]
    assert record.args[0] in text


def test_a_request_that_does_not_fit_the_model_never_reaches_the_operations(wire):
    describe = wire.boto("sagemaker").describe_training_job
    code, text, status = refusal(describe, TrainingJobName="under_score")
    assert (code, status) == ("ValidationException", 400)
    assert "at 'trainingJobName' failed to satisfy constraint" in text
    assert wire.operations.calls == []


@pytest.mark.parametrize(
    ("target", "body", "code"),
    [
        ("SageMaker.ListTrainingJobs", b"{", "SerializationException"),
        ("SageMaker.ListTrainingJobs", b"[]", "SerializationException"),
        ("SageMaker.ListTrainingJobs", b'{"MaxResults": "3"}', "SerializationException"),
        ("SageMaker.ListTrainingJobs", b"\xff", "SerializationException"),
        ("SageMaker.MakeCoffee", b"{}", "UnknownOperationException"),
        ("SageMaker.MakeCoffee", b"{", "UnknownOperationException"),  # before it is read
        ("Logs_20140328.GetLogEvents", b"{}", "UnknownOperationException"),
        ("", b"{}", "UnknownOperationException"),
    ],
)
def test_an_unusable_body_or_target_is_refused(wire, target, body, code):
    headers = {"X-Amz-Target": target, "Content-Type": "application/x-amz-json-1.1"}
    with pytest.raises(urllib.error.HTTPError) as caught:
        wire.send(wire.signed("sagemaker", body, **headers))
    with caught.value as answer:
        assert (answer.code, json.load(answer)["__type"]) == (400, code)


def test_sts_and_iam_answer_what_the_sdks_ask(wire):
    assert wire.boto("sts").get_caller_identity()["Account"] == "000000000000"
    # A role, not a user: SDK v3 takes the caller's as that of jobs that name none.
    assert ":assumed-role/stoker-local/" in wire.boto("sts").get_caller_identity()["Arn"]
    iam = wire.boto("iam")
    role = iam.get_role(RoleName="dummy")["Role"]
    trusted = role["AssumeRolePolicyDocument"]["Statement"][0]["Principal"]
    assert (role["RoleName"], trusted) == ("dummy", {"Service": "sagemaker.amazonaws.com"})
    simulated = iam.simulate_principal_policy(
        PolicySourceArn=role["Arn"], ActionNames=["s3:GetObject", "logs:<&>"]
    )["EvaluationResults"]
    assert [(r["EvalActionName"], r["EvalDecision"]) for r in simulated] == [
        ("s3:GetObject", "allowed"),
        ("logs:<&>", "allowed"),
    ]
    code, _, status = refusal(iam.list_users)
    assert (code, status) == ("AccessDenied", 403)


@pytest.mark.parametrize(
    ("client", "operation", "params", "shown"),
    [
        ("codebuild", "list_projects", {}, "codebuild:ListProjects"),
        ("cloudwatch", "list_metrics", {}, "monitoring:ListMetrics"),
        ("ec2", "describe_instances", {}, "ec2:DescribeInstances"),
        ("sns", "list_topics", {}, "sns:ListTopics"),
        ("lambda", "list_functions", {}, "lambda:GET /2015-03-31/functions"),
        ("route53", "list_hosted_zones", {}, "route53:GET /2013-04-01/hostedzone"),
        (
            *("sagemaker-runtime", "invoke_endpoint", {"EndpointName": "e", "Body": b"x"}),
            "sagemaker-runtime:POST /endpoints/e/invocations",
        ),
        (
            *("sagemaker-metrics", "batch_put_metrics"),
            {"TrialComponentName": "t", "MetricData": []},
            "sagemaker-metrics:PUT /BatchPutMetrics",
        ),
    ],
)
def test_a_service_that_is_not_served_answers_in_its_own_protocol(
    wire, client, operation, params, shown
):
    """Anything else ends in a ResponseParserError of the SDK, which shows no text."""
    call = getattr(wire.boto(client, parameter_validation=False), operation)
    code, text, status = refusal(lambda: call(**params))
    assert code in ("UnknownOperationException", "InvalidAction")
    assert status == 400
    assert f"{shown} is not emulated by the local platform" in text
    assert "sagemaker, logs, sts, iam, s3" in text
    assert wire.operations.calls == []


@pytest.mark.parametrize(
    ("service", "call", "unknown", "mismatch"),
    [
        (
            *("sagemaker", "list_training_jobs"),
            *("UnrecognizedClientException", "InvalidSignatureException"),
        ),
        ("sts", "get_caller_identity", "InvalidClientTokenId", "SignatureDoesNotMatch"),
    ],
)
def test_other_keys_are_refused_in_the_words_of_the_service(
    wire, service, call, unknown, mismatch
):
    other = Credentials(access_key="SOMEBODYELSE", secret_key=KEYS.secret_key)
    code, text, status = refusal(getattr(wire.boto(service, keys=other), call))
    assert (code, status) == (unknown, 403)
    assert "stoker local env" in text
    wrong = Credentials(access_key=KEYS.access_key, secret_key="guessed")
    code, _, status = refusal(getattr(wire.boto(service, keys=wrong), call))
    assert (code, status) == (mismatch, 403)
    assert wire.operations.calls == []


def test_a_body_larger_than_any_request_is_not_read_to_its_end(wire):
    host = wire.endpoint.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=DEADLINE_SECONDS)
    credential = "K/20260101/us-east-1/sagemaker/aws4_request"
    signature = f"Credential={credential}, SignedHeaders=host, Signature={'0' * 64}"
    connection.putrequest("POST", "/")
    connection.putheader("Authorization", f"AWS4-HMAC-SHA256 {signature}")
    connection.putheader("Content-Length", str(10**12))
    connection.endheaders()
    for _ in range(5):
        connection.send(b" " * 1024 * 1024)
    assert connection.getresponse().status == 413
    connection.close()


def test_slow_calls_keep_no_other_service_waiting(wire):
    go_on = threading.Event()

    def answer():
        go_on.wait(DEADLINE_SECONDS)
        return {}

    wire.operations.answer = answer
    sagemaker = wire.boto("sagemaker", max_pool_connections=20)
    with ThreadPoolExecutor(20) as clients:
        waiting = [clients.submit(sagemaker.list_training_jobs) for _ in range(20)]
        try:
            assert wire.boto("sts").get_caller_identity()["Account"]
        finally:
            go_on.set()
        for call in waiting:
            call.result(DEADLINE_SECONDS)
    assert len(wire.operations.calls) == 20


def test_a_gate_lets_some_in_some_wait_and_refuses_the_rest_at_once():
    async def flood():
        gate, leave = Gate(at_once=1, waiting=1), asyncio.Event()

        async def visit():
            async with gate.passed():
                await leave.wait()

        visits = [asyncio.create_task(visit()) for _ in range(3)]
        refused, _ = await asyncio.wait(visits, return_when=asyncio.FIRST_COMPLETED)
        leave.set()
        done = await asyncio.gather(*visits, return_exceptions=True)
        return refused == {visits[2]}, done

    last_was_refused, (first, second, third) = asyncio.run(flood())
    assert last_was_refused
    assert (first, second) == (None, None)
    assert isinstance(third, ApiFault)
    assert third.code == "ThrottlingException"


def test_an_s3_server_that_is_away_asks_for_another_try(wire):
    code, text, status = refusal(wire.boto("s3").list_buckets)
    assert (code, status) == ("SlowDown", 503)
    assert "does not answer" in text


def test_more_s3_requests_than_the_platform_holds_are_told_to_slow_down(wire, monkeypatch):
    monkeypatch.setattr("stoker.platform.api.s3_proxy._MOST_AT_ONCE", 0)
    code, text, status = refusal(wire.boto("s3").list_buckets)
    assert (code, status, text) == ("SlowDown", 503, "Please reduce your request rate.")


def test_connections_that_send_no_whole_request_are_closed():
    with running_api(NOWHERE, silent_seconds=1) as wire:
        place = urllib.parse.urlsplit(wire.endpoint)
        for sent in (b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow:"):
            with socket.create_connection(
                (place.hostname, place.port), timeout=DEADLINE_SECONDS
            ) as client:
                client.sendall(sent)
                assert client.recv(1024) == b"", sent
        # One that is kept alive between two requests is closed as well, and answers until then.
        assert wire.boto("sts").get_caller_identity()["Account"]


def test_a_request_that_takes_long_to_answer_keeps_its_connection():
    with running_api(NOWHERE, silent_seconds=0.5) as wire:
        wire.operations.answer = lambda: time.sleep(2) or {"TrainingJobSummaries": []}
        assert wire.boto("sagemaker").list_training_jobs()["TrainingJobSummaries"] == []


def test_malformed_requests_leave_no_traceback_in_the_log(wire, caplog):
    place = urllib.parse.urlsplit(wire.endpoint)
    for sent in (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"GET / HTTP/9\r\n\r\n"):
        with socket.create_connection(
            (place.hostname, place.port), timeout=DEADLINE_SECONDS
        ) as client:
            client.sendall(sent)
            assert b"400" in client.recv(1024)
    assert caplog.text == ""

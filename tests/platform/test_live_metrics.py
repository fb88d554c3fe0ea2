"""Metrics while a job runs, as CloudWatch in every protocol and the analytics of both SDKs."""

from __future__ import annotations

import json
import textwrap
from datetime import UTC, datetime, timedelta

import boto3
import botocore.session
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from botocore.loaders import Loader

from stoker.platform.model.root import REGION
from tests.platform.local_server import wait_until
from tests.sdks import run_sdk

NAMESPACE = "/aws/sagemaker/TrainingJobs"
DEFINITIONS = {
    "MetricDefinitions": [
        {"Name": "loss", "Regex": "loss=([0-9.]+)"},
        {"Name": "val:acc", "Regex": "val_acc=([0-9.]+)"},
    ]
}
SCRIPT = """
    import os, time
    for step in range(5):
        print(f"step {{step}} loss={{step / 2}}", flush=True)
    print("val acc: 0.75", flush=True)
    while not os.path.exists({go!r}):
        time.sleep(0.02)
    print("loss=9.5", flush=True)
"""
ANALYTICS = """
    import json, sys
    from {module} import TrainingJobAnalytics
    frame = TrainingJobAnalytics(sys.argv[1]).dataframe()
    print(json.dumps({{"columns": list(frame.columns), "values": list(frame["value"])}}))
"""


def window(name):
    now = datetime.now(UTC)
    return {
        "Namespace": NAMESPACE,
        "MetricName": name,
        "StartTime": now - timedelta(hours=1),
        "EndTime": now + timedelta(hours=1),
        "Period": 60,
        "Statistics": ["Average", "SampleCount"],
    }


def job_dimension(job):
    return [{"Name": "TrainingJobName", "Value": job}]


def read(client, job, name="loss"):
    found = client.get_metric_statistics(**window(name), Dimensions=job_dimension(job))
    return [point["Average"] for point in found["Datapoints"]]


@pytest.fixture
def cloudwatch(server, tmp_path):
    """Makes a stock client whose model names one protocol only, as those of older versions."""

    def make(protocol):
        model = Loader().load_service_model("cloudwatch", "service-2")
        model["metadata"] |= {"protocol": protocol, "protocols": [protocol]}
        folder = tmp_path / protocol / "cloudwatch/2010-08-01"
        folder.mkdir(parents=True)
        (folder / "service-2.json").write_text(json.dumps(model))
        core = botocore.session.Session()
        core.get_component("data_loader").search_paths.insert(0, str(tmp_path / protocol))
        keys = json.loads(server.root.credentials_file.read_text())
        return boto3.session.Session(botocore_session=core).client(
            "cloudwatch",
            endpoint_url=server.endpoint,
            region_name=REGION,
            aws_access_key_id=keys["access_key"],
            aws_secret_access_key=keys["secret_key"],
            config=Config(retries={"total_max_attempts": 1}),
        )

    return make


def test_every_value_is_there_while_the_job_runs_and_after_a_kill_of_the_server(server, tmp_path):
    go = tmp_path / "go"
    script = SCRIPT.format(go=str(go))
    server.submit("live", script, AlgorithmSpecification=DEFINITIONS)
    early = [0.0, 0.5, 1.0, 1.5, 2.0]
    wait_until(lambda: read(server.boto("cloudwatch"), "live") == early, "five live values")
    server.kill()
    server.start()
    go.touch()
    job = server.wait("live")
    assert read(server.boto("cloudwatch"), "live") == [*early, 9.5]
    assert {m["MetricName"]: m["Value"] for m in job["FinalMetricDataList"]} == {"loss": 9.5}
    (said,) = [line for line in server.log("live") if "has no value" in line]
    assert said.startswith("[stoker] metric 'val:acc' has no value: no line of the log matches")
    assert "nearly: 'val acc: 0.75'" in said


@pytest.mark.parametrize("protocol", ["smithy-rpc-v2-cbor", "json", "query"])
def test_cloudwatch_answers_in_every_protocol(server, cloudwatch, tmp_path, protocol):
    go = tmp_path / "go"
    go.touch()
    server.submit("job", SCRIPT.format(go=str(go)), AlgorithmSpecification=DEFINITIONS)
    server.wait("job")
    client = cloudwatch(protocol)
    assert read(client, "job") == [0.0, 0.5, 1.0, 1.5, 2.0, 9.5]
    assert read(client, "job", "none") == []
    listed = client.list_metrics(Namespace=NAMESPACE, Dimensions=job_dimension("job"))["Metrics"]
    assert [m["MetricName"] for m in listed] == ["loss"]
    assert listed[0]["Dimensions"] == job_dimension("job")
    query = {
        "Id": "m1",
        "MetricStat": {"Metric": {**listed[0]}, "Period": 60, "Stat": "Average"},
    }
    times = {key: window("loss")[key] for key in ("StartTime", "EndTime")}
    pages = client.get_paginator("get_metric_data").paginate(
        MetricDataQueries=[query], ScanBy="TimestampAscending", MaxDatapoints=4, **times
    )
    results = [page["MetricDataResults"][0] for page in pages]
    assert [result["Values"] for result in results] == [[0.0, 0.5, 1.0, 1.5], [2.0, 9.5]]
    assert abs(results[0]["Timestamps"][0] - datetime.now(UTC)) < timedelta(minutes=10)
    with pytest.raises(ClientError, match="expressions are not emulated") as refused:
        client.get_metric_data(MetricDataQueries=[{"Id": "e1", "Expression": "1"}], **times)
    assert refused.value.response["Error"]["Code"] == "InvalidParameterValue"
    with pytest.raises(ClientError, match="is not emulated by the local platform"):
        client.describe_alarms()


@pytest.mark.parametrize(
    ("sdk", "module"), [("v2", "sagemaker.analytics"), ("v3", "sagemaker.core.analytics")]
)
def test_the_analytics_of_the_sdks_return_every_point(server, tmp_path, sdk, module):
    go = tmp_path / "go"
    go.touch()
    server.submit("job", SCRIPT.format(go=str(go)), AlgorithmSpecification=DEFINITIONS)
    server.wait("job")
    program = tmp_path / "analytics.py"
    program.write_text(textwrap.dedent(ANALYTICS.format(module=module)))
    frame = run_sdk(sdk, program, "job", environ=server.sdk_environ())
    assert frame["columns"] == ["timestamp", "metric_name", "value"]
    assert frame["values"] == [0.0, 0.5, 1.0, 1.5, 2.0, 9.5]

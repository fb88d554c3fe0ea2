"""Unmodified MLflow code against the platform: by its address, by an ARN and inside of jobs."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.platform.local_server import ENDED, LocalServer, channel, wait_until
from tests.sdks import run_sdk, sdk_python

pytestmark = pytest.mark.timeout(900)
SCRIPT = Path(__file__).with_name("mlflow_client.py")
EXPORTED = SCRIPT.with_name("exported_runs.py")
ARN = "arn:aws:sagemaker:us-east-1:000000000000:mlflow-app/app-local"


def call(server, path, body=None, *, password=None):
    """Status and answer of one request, as a client without mlflow sends it."""
    keys = json.loads(server.root.credentials_file.read_text())
    token = f"{keys['access_key']}:{password or keys['secret_key']}".encode()
    request = urllib.request.Request(
        f"{server.endpoint}/api/2.0/mlflow/{path}",
        data=body.encode() if body is not None else None,
        headers={"Authorization": f"Basic {base64.b64encode(token).decode()}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=240) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def submit_job(server):
    definitions = [{"Name": "loss", "Regex": "loss=([0-9.]+)"}]
    server.submit(
        "Seen-By-Mlflow",
        "for i in range(4): print(f'loss={1 / (i + 1)}')",
        HyperParameters={"lr": "0.25", "epochs": "4"},
        AlgorithmSpecification={"MetricDefinitions": definitions},
        ExperimentConfig={"ExperimentName": "jobs"},
    )
    server.wait("Seen-By-Mlflow")


@pytest.mark.parametrize(("kind", "client"), [("http", "v3"), ("arn", "v3"), ("http", "mlflow2")])
def test_stock_mlflow_logs_and_finds_runs(kind, client, server, tmp_path, monkeypatch):
    submit_job(server)
    monkeypatch.chdir(tmp_path)
    keys = json.loads(server.root.credentials_file.read_text())
    variables = {
        **server.sdk_environ(),
        "SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT": server.endpoint,
        "MLFLOW_TRACKING_USERNAME": keys["access_key"],
        "MLFLOW_TRACKING_PASSWORD": keys["secret_key"],
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    uri = server.endpoint if kind == "http" else ARN
    seen = run_sdk(client, SCRIPT, kind, uri, environ=variables)
    assert seen["history"] == [[step, 1 / (step + 1)] for step in range(5)]
    assert (seen["names"], seen["statuses"]) == (["first", "second"], ["FINISHED", "FAILED"])
    assert (seen["special"], seen["note"]) == ([True, True], 3000)
    assert (seen["found"], seen["nothing"], seen["left"]) == (["second"], 0, 1)
    assert seen["artifacts"] == ["model.txt"]
    invalid = "INVALID_PARAMETER_VALUE"
    assert seen["errors"] == [invalid, "RESOURCE_DOES_NOT_EXIST", *[invalid] * 4]
    assert (seen["by_data"], seen["data"]) == (["first"], ["iris"])
    assert seen["registered"] == ["2", "first", "1", "second"]
    assert seen["models"] == (["net", True, [42.0]] if client == "v3" else [])
    job = seen["job"]
    assert (job["lr"], job["epochs"], job["loss"]) == ("0.25", "4", 0.25)
    assert job["status"] == "FINISHED"
    # The same run, as SageMaker's clients see it.
    found = server.boto("sagemaker").search(
        Resource="ExperimentTrialComponent",
        SearchExpression={
            "Filters": [{"Name": "Parents.ExperimentName", "Value": f"With MLflow + {kind}"}]
        },
    )["Results"]
    run = next(r for e in found if (r := e["TrialComponent"])["DisplayName"] == "first")
    assert run["Status"]["PrimaryStatus"] == "Completed"
    loss = next(each for each in run["Metrics"] if each["MetricName"] == "loss")
    assert (loss["Count"], loss["Last"]) == (5, 0.2)


def test_bad_requests_are_refused(server):
    assert call(server, "experiments/search", "{}", password="wrong")[0] == 403
    assert call(server, "experiments/search", "[1]")[1]["error_code"] == "BAD_REQUEST"
    assert call(server, "experiments/search", "{")[1]["error_code"] == "BAD_REQUEST"
    assert call(server, "no/such", "{}")[1]["error_code"] == "ENDPOINT_NOT_FOUND"
    status, answer = call(server, "runs/get?run_id=none")
    assert (status, answer["error_code"]) == (404, "RESOURCE_DOES_NOT_EXIST")
    assert call(server, "experiments/create", '{"name": "e"}')[0] == 200
    again = call(server, "experiments/create", '{"name": "e"}')
    assert again[1]["error_code"] == "RESOURCE_ALREADY_EXISTS"
    run = call(server, "runs/create", '{"experiment_id": "1"}')[1]["run"]["info"]["run_id"]
    for metric in (
        {"key": "m", "value": "text"},
        {"key": "m", "value": 1, "step": 2**70},
        {"value": 1},
    ):
        body = json.dumps({"run_id": run, "metrics": [metric]})
        refused = call(server, "runs/log-batch", body)
        assert refused[1]["error_code"] == "INVALID_PARAMETER_VALUE", metric
    assert call(server, "experiments/create", '{"name": "other"}')[0] == 200
    for path, body, code in (
        ("experiments/create", {"name": "\ud800"}, "BAD_REQUEST"),
        ("experiments/create", {"name": "n", "tags": 5}, "INVALID_PARAMETER_VALUE"),
        ("experiments/update", {"experiment_id": "1"}, "INVALID_PARAMETER_VALUE"),
        (
            "experiments/update",
            {"experiment_id": "1", "new_name": "other"},
            "RESOURCE_ALREADY_EXISTS",
        ),
        ("runs/create", {"experiment_id": "1", "start_time": "now"}, "INVALID_PARAMETER_VALUE"),
        ("runs/create", {"experiment_id": ["1"]}, "INVALID_PARAMETER_VALUE"),
        ("runs/update", {"run_id": run, "status": ["RUNNING"]}, "INVALID_PARAMETER_VALUE"),
        ("runs/search", {"experiment_ids": 1}, "INVALID_PARAMETER_VALUE"),
        ("runs/search", {"max_results": -1}, "INVALID_PARAMETER_VALUE"),
        ("runs/search", {"page_token": "9" * 5000}, "INVALID_PARAMETER_VALUE"),
    ):
        assert call(server, path, json.dumps(body))[1]["error_code"] == code, body
    dataset = {"name": "d", "digest": "1"}
    for path, body in (
        ("runs/log-inputs", {"datasets": [{"dataset": dataset, "tags": 5}]}),
        ("runs/log-inputs", {"datasets": [{"dataset": dataset, "tags": ["a"]}]}),
        ("runs/outputs", {"models": [{"model_id": "m-0", "step": [1]}]}),
        ("runs/log-model", {"model_json": "5"}),
        ("experiments/update", {"experiment_id": "0", "new_name": "mine"}),
        ("logged-models", {"experiment_id": "99"}),
    ):
        answer = call(server, path, json.dumps({"run_id": run, **body}))[1]
        assert answer["error_code"] in ("INVALID_PARAMETER_VALUE", "RESOURCE_DOES_NOT_EXIST"), body
    refused = call(server, "experiments/get-by-name")
    assert refused[1]["error_code"] == "INVALID_PARAMETER_VALUE"
    for text in ("metrics.loss <", "loss ? 1", "params.a = 'x' or params.b = 'y'"):
        body = json.dumps({"experiment_ids": ["1"], "filter": text})
        refused = call(server, "runs/search", body)
        assert refused[1]["error_code"] == "INVALID_PARAMETER_VALUE", text


def test_what_one_client_may_send_does_not_hide_the_runs_from_another(server):
    late = {"experiment_id": "0", "start_time": 2**53 - 1}  # the year 287396
    run = call(server, "runs/create", json.dumps(late))[1]["run"]["info"]["run_id"]
    model = call(server, "logged-models", '{"name": "m"}')[1]["model"]["info"]["model_id"]
    for path, body in (
        ("runs/set-tag", {"key": "mlflow.log-model.history", "value": "5"}),
        ("runs/log-model", {"model_json": '{"artifact_path": "m"}'}),
        ("runs/log-inputs", {"datasets": [{"dataset": {"name": ["d"], "digest": 1}}]}),
        (
            "runs/log-batch",
            {"metrics": [{"key": "m", "value": True, "timestamp": 2**60, "model_id": model}]},
        ),
        ("runs/log-batch", {"metrics": [{"key": "m", "value": 1e300}] * 2}),
    ):
        assert call(server, path, json.dumps({"run_id": run, **body}))[0] == 200, body
    (found,) = call(server, "runs/search", '{"experiment_ids": ["0"]}')[1]["runs"]
    assert found["inputs"]["dataset_inputs"] == [
        {"dataset": {"name": "['d']", "digest": "1"}, "tags": []}
    ]
    tags = {each["key"]: each["value"] for each in found["data"]["tags"]}
    assert tags["mlflow.log-model.history"] == '[{"artifact_path": "m"}]'
    (logged,) = call(server, "logged-models/search", '{"experiment_ids": ["0"]}')[1]["models"]
    assert logged["data"]["metrics"][0]["value"] == 1.0
    (seen,) = server.boto("sagemaker").search(Resource="ExperimentTrialComponent")["Results"]
    metric = seen["TrialComponent"]["Metrics"][0]
    assert (metric["Count"], metric["Max"], "StdDev" in metric) == (3, 1e300, False)


def test_two_clients_that_tag_one_run_lose_no_tag(server):
    run = call(server, "runs/create", '{"experiment_id": "0"}')[1]["run"]["info"]["run_id"]
    model = call(server, "logged-models", '{"name": "m"}')[1]["model"]["info"]["model_id"]
    call(server, "registered-models/create", '{"name": "m"}')

    def tag(number: int) -> None:
        pair = {"key": f"k{number}", "value": "v"}
        call(server, "runs/set-tag", json.dumps({"run_id": run, **pair}))
        call(server, "runs/delete-tag", json.dumps({"run_id": run, "key": f"k{number - 8}"}))
        call(server, "registered-models/set-tag", json.dumps({"name": "m", **pair}))
        call(server, f"logged-models/{model}/params", json.dumps({"params": [pair]}))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(tag, range(40)))
    search = call(server, "runs/search", '{"experiment_ids": ["0"]}')[1]["runs"]
    assert len(call(server, "registered-models/get?name=m")[1]["registered_model"]["tags"]) == 40
    found = call(server, f"logged-models/{model}")[1]["model"]
    assert len(found["data"]["params"]) == 40
    tags = {each["key"] for each in search[0]["data"]["tags"]}
    assert {f"k{number}" for number in range(32, 40)} <= tags


def test_a_whole_number_of_sagemakers_clients_is_a_parameter(server):
    server.boto("sagemaker").create_trial_component(
        TrialComponentName="run", Parameters={"epochs": {"NumberValue": 3}}
    )
    found = call(server, "runs/search", json.dumps({"experiment_ids": ["0"]}))[1]["runs"]
    assert found[0]["data"]["params"] == [{"key": "epochs", "value": "3"}]


def test_a_bucket_named_api_is_not_mistaken_for_mlflow(server):
    server.boto("s3").create_bucket(Bucket="api")
    uri = server.put("2.0/mlflow/runs/get", "an object", bucket="api")
    assert server.get(uri) == b"an object"


def test_an_autolog_script_unchanged_continues_the_run_of_its_job(server):
    (packages,) = sdk_python("v3").parents[1].glob("lib/python3*/site-packages")
    server.submit(
        "autolog",
        Path(__file__).with_name("autolog.py").read_text(),
        HyperParameters={"seed": "0"},
        ExperimentConfig={"ExperimentName": "auto"},
        Environment={"PYTHONPATH": str(packages)},
    )
    wait_until(lambda: server.describe("autolog")["TrainingJobStatus"] in ENDED, "its end", 600)
    (line,) = (line for line in server.log("autolog") if line.startswith("LOSS"))
    (run,) = call(server, "runs/search", json.dumps({"experiment_ids": ["1"]}))[1]["runs"]
    metrics = {each["key"]: each for each in run["data"]["metrics"]}
    assert metrics["train_loss"]["value"] == pytest.approx(float(line.split()[1]))
    params = {each["key"]: each["value"] for each in run["data"]["params"]}
    assert (params["epochs"], params["seed"], params["optimizer_name"]) == ("3", "0", "SGD")
    api = server.boto("sagemaker")
    seen = api.describe_trial_component(TrialComponentName="autolog-aws-training-job")
    loss = next(each for each in seen["Metrics"] if each["MetricName"] == "train_loss")
    assert (loss["Count"], loss["Last"]) == (3, metrics["train_loss"]["value"])
    assert seen["Status"]["PrimaryStatus"] == "Completed"


@pytest.mark.docker
def test_mlflow_2_in_a_container_continues_the_run_of_its_job(make_server):
    server = make_server("docker").start()
    (packages,) = sdk_python("mlflow2").parents[1].glob("lib/python3*/site-packages")
    script = """
        import os
        given = os.environ["MLFLOW_RUN_ID"]  # mlflow removes it
        import mlflow
        with mlflow.start_run() as run:
            mlflow.log_metric("accuracy", 0.5, step=3)
            mlflow.log_text("hello", "note.txt")
        print("SAME", run.info.run_id == given)
    """
    server.submit(
        "inside",
        script,
        InputDataConfig=[channel("packages", f"file://{packages}")],
        Environment={"PYTHONPATH": "/opt/ml/input/data/packages"},
    )
    assert server.wait("inside")["TrainingJobStatus"] == "Completed", server.log("inside")
    assert "SAME True" in server.log("inside")
    run = call(server, "runs/search", json.dumps({"experiment_ids": ["0"]}))[1]["runs"][0]
    (metric,) = run["data"]["metrics"]
    assert (metric["key"], metric["value"], metric["step"]) == ("accuracy", 0.5, 3)
    assert server.get(f"{run['info']['artifact_uri']}/note.txt") == b"hello"


def test_runs_are_exported_to_another_server_and_as_parquet(server, tmp_path):
    submit_job(server)
    (packages,) = sdk_python("v3").parents[1].glob("lib/python3*/site-packages")
    # pyarrow alone: the other packages there belong to another environment.
    (tmp_path / "pyarrow").symlink_to(packages / "pyarrow")
    other = LocalServer(tmp_path / "other").start()
    login = {
        "MLFLOW_TRACKING_USERNAME": other.sdk_environ()["AWS_ACCESS_KEY_ID"],
        "MLFLOW_TRACKING_PASSWORD": other.sdk_environ()["AWS_SECRET_ACCESS_KEY"],
    }

    def export(*words: str) -> list[str]:
        command = [sys.executable, "-m", "stoker", "runs", "export", *words]
        command += ["--root", str(server.root.folder)]
        environ = server.environ(**login)
        environ["PYTHONPATH"] = f"{tmp_path}:{environ['PYTHONPATH']}"
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environ)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    try:
        export("--parquet", str(tmp_path / "runs.parquet"))
        export("--points", "--parquet", str(tmp_path / "points.parquet"))
        assert len(export("--mlflow", other.endpoint)) == 1
        assert export("--mlflow", other.endpoint)[0].endswith("which was there")
        seen = run_sdk("v3", EXPORTED, other.endpoint, str(tmp_path), environ=login)
    finally:
        other.end()
    history = [[step, 1 / (step + 1)] for step in range(4)]
    assert seen["run"] == ["Seen-By-Mlflow", "FINISHED", "0.25", history]
    assert seen["rows"] == [["Seen-By-Mlflow", 0.25, 0.25]]
    assert seen["points"] == history

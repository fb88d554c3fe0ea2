"""The AWS calls of metrics, made by boto3 to servers on this machine."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from stoker.metrics.aws import make_metric_data
from tests.metrics.reading import scalars
from tests.s3_server import running_s3

KEYS = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
ARN = "arn:aws:sagemaker:eu-west-1:123456789012:training-job/j"


class Service:
    """As much of SageMaker as a job's metrics meet."""

    def __init__(self, components: list[str], refuses: bool = False) -> None:
        self.puts: list[dict] = []
        self.calls = 0
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                service.calls += 1
                if "ListTrialComponents" in self.headers.get("X-Amz-Target", ""):
                    names = [{"TrialComponentName": name} for name in components]
                    self.answer(200, {"TrialComponentSummaries": names})
                elif refuses:
                    self.answer(400, {"__type": "AccessDeniedException", "Message": "no"})
                else:
                    service.puts.append(request)
                    self.answer(200, {})

            do_PUT = do_POST

            def answer(self, code: int, content: dict) -> None:
                body = json.dumps(content).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def service(request):
    service = Service(**request.param)
    yield service
    service.close()


SCRIPT = """
    import stoker
    job = stoker.job()
    for step in range(8):
        job.log(step, a=1.0, b=float(step), c=float("nan"))
    from stoker.metrics.log import open_log
    open_log(job).flush()
    print("trained")
"""


def run(scripts, service, **more):
    environ = {**KEYS, "AWS_ENDPOINT_URL": service.url, "TRAINING_JOB_ARN": ARN, **more}
    return scripts.run(SCRIPT, **environ)


@pytest.mark.parametrize("service", [{"components": ["j-aws-training-job"]}], indirect=True)
def test_metrics_reach_the_trial_component_in_batches(scripts, service):
    run(scripts, service)
    assert {put["TrialComponentName"] for put in service.puts} == {"j-aws-training-job"}
    assert all(1 <= len(put["MetricData"]) <= 10 for put in service.puts)
    entries = [entry for put in service.puts for entry in put["MetricData"]]
    assert [(e["MetricName"], e["Step"]) for e in entries if e["MetricName"] == "b"] == [
        ("b", step) for step in range(8)
    ]
    assert {entry["MetricName"] for entry in entries} == {"a", "b"}


@pytest.mark.parametrize("service", [{"components": []}], indirect=True)
def test_a_job_without_a_trial_component_asks_once(scripts, service):
    assert run(scripts, service).stderr == ""
    assert (service.puts, service.calls) == ([], 1)


@pytest.mark.parametrize("service", [{"components": ["c"], "refuses": True}], indirect=True)
def test_a_refusal_is_reported_once_and_training_continues(scripts, service):
    ended = run(scripts, service)
    assert "trained" in ended.stdout
    assert ended.stderr.count("not sent to SageMaker Experiments") == 1
    assert len(scalars(scripts.tensorboard, "a")) == 8


@pytest.mark.parametrize("service", [{"components": ["c"]}], indirect=True)
def test_a_job_outside_sagemaker_makes_no_calls(scripts, service):
    run(scripts, service, TRAINING_JOB_ARN="")
    assert service.calls == 0


def test_what_the_api_cannot_take_is_left_out():
    metrics = {"x" * 300: 1.0, "": 2.0, "inf": float("inf")}
    (entry,) = make_metric_data(1.0, 2**40, metrics)
    assert entry == {"MetricName": "x" * 255, "Timestamp": 1.0, "Value": 1.0}
    (entry,) = make_metric_data(1.0, 5, {"m": 1.0})
    assert entry["Step"] == 5


@pytest.fixture
def bucket(tmp_path_factory):
    """The address of an S3 server, and the folder of a bucket."""
    root = tmp_path_factory.mktemp("s3")
    (root / "bucket").mkdir()
    with running_s3(root) as address:
        yield address, root / "bucket"


STOCK = """
    import sys
    from torch.utils.tensorboard import SummaryWriter
    writer = SummaryWriter("s3://{bucket}/runs/1")
    for step in range(5):
        writer.add_scalar("loss", step, step)
    writer.flush()
    assert "tensorflow" not in sys.modules
    print("trained")
"""


def test_a_stock_writer_writes_to_s3_without_tensorflow(scripts, bucket):
    url, folder = bucket
    scripts.run(STOCK.format(bucket="bucket"), **KEYS, AWS_ENDPOINT_URL=url)
    assert scalars(folder / "runs/1", "loss") == [(step, float(step)) for step in range(5)]


def test_s3_that_refuses_does_not_end_training(scripts, bucket):
    url, _ = bucket
    wrong = {**KEYS, "AWS_SECRET_ACCESS_KEY": "wrong", "AWS_ENDPOINT_URL": url}
    ended = scripts.run(STOCK.format(bucket="bucket"), **wrong)
    assert ended.stdout == "trained\n"
    assert ended.stderr.count("cannot be written") == 1


def test_objects_stay_small_and_follow_each_other(monkeypatch):
    from stoker.metrics import aws, sinks

    uploaded = {}
    monkeypatch.setattr(aws, "put_object", uploaded.__setitem__)
    monkeypatch.setattr(sinks, "_LARGEST_OBJECT_BYTES", 100)
    sink = sinks.make_event_sink("s3://bucket/run/", "", b"header")
    for _ in range(10):
        sink.write(bytes(60))
        assert not sink.sync(urgent=True)
    assert len(uploaded) == 5
    assert all(name.startswith("s3://bucket/run/events.out.tfevents.") for name in uploaded)
    assert all(content == b"header" + bytes(120) for content in uploaded.values())

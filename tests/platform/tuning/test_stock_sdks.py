"""Unmodified HyperparameterTuner of SDK v2 and v3 searches here as it would in the cloud."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.platform.tuning.tuning_jobs import make_request, wait
from tests.sdks import run_sdk, sdk_python

pytestmark = pytest.mark.timeout(900)
HERE = Path(__file__).parent
COLUMNS = [
    *("FinalObjectiveValue", "TrainingElapsedTimeSeconds", "TrainingEndTime", "TrainingJobName"),
    *("TrainingJobStatus", "TrainingStartTime", "layers", "lr", "optimizer"),
]


def aws(server, *words):
    environ = {**os.environ, **server.sdk_environ()}
    done = subprocess.run(
        [sdk_python("cli").with_name("aws"), "sagemaker", *words],
        env=environ,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout or "{}")


def test_the_aws_cli_tunes(server, tmp_path):
    request = tmp_path / "request.json"
    request.write_text(json.dumps(make_request(server, "cli")))
    created = aws(
        server, "create-hyper-parameter-tuning-job", "--cli-input-json", f"file://{request}"
    )
    assert created["HyperParameterTuningJobArn"].endswith("hyper-parameter-tuning-job/cli")
    wait(server, "cli")
    name = ("--hyper-parameter-tuning-job-name", "cli")
    described = aws(server, "describe-hyper-parameter-tuning-job", *name)
    assert described["HyperParameterTuningJobStatus"] == "Completed"
    listed = aws(server, "list-training-jobs-for-hyper-parameter-tuning-job", *name)
    assert len(listed["TrainingJobSummaries"]) == 3
    found = aws(server, "search", "--resource", "HyperParameterTuningJob")
    assert len(found["Results"]) == 1
    aws(server, "delete-hyper-parameter-tuning-job", *name)
    assert aws(server, "list-hyper-parameter-tuning-jobs") == {
        "HyperParameterTuningJobSummaries": []
    }


def run(server, version):
    return run_sdk(
        version,
        HERE / f"scenario_{version}.py",
        *(server.image, str(HERE / "source")),
        environ=server.sdk_environ(),
    )


def require_frame(found):
    assert found["columns"] == COLUMNS
    assert len(found["rows"]) == 3
    assert {row["TrainingJobStatus"] for row in found["rows"]} == {"Completed"}
    best = max(found["rows"], key=lambda row: row["FinalObjectiveValue"])
    assert best["TrainingJobName"] == found["best"]
    for row in found["rows"]:
        value = 1 - abs(row["lr"] - 0.01) - 0.01 * row["layers"] + 0.002
        assert row["FinalObjectiveValue"] == pytest.approx(value, abs=1e-4)


def test_sdk_v2_tunes(server):
    found = run(server, "v2")
    require_frame(found)
    assert found["attached"] == found["best"]
    assert found["model"].endswith(f"{found['best']}/output/model.tar.gz")
    assert found["overall"]
    assert found["definitions"] == ["one", "two"]
    assert (found["hyperband"], found["early"]) == ("Completed", "Completed")
    (row,) = found["auto"]
    assert row["TrainingJobStatus"] == "Completed", row
    assert 1 <= row["epochs"] <= 6
    assert 0.001 <= row["lr"] <= 0.1
    assert found["stopped"] == "Stopped"


def test_sdk_v3_tunes(server):
    found = run(server, "v3")
    require_frame(found)
    assert found["status"] == "Completed"
    listed = server.boto("sagemaker").list_hyper_parameter_tuning_jobs()
    ended = {}
    for job in listed["HyperParameterTuningJobSummaries"]:
        name = job["HyperParameterTuningJobName"]
        ended[name.partition("-")[0]] = wait(server, name)
    assert {name: job["HyperParameterTuningJobStatus"] for name, job in ended.items()} == {
        **dict.fromkeys(("book", "child", "rungs"), "Completed"),
        "stopped": "Stopped",
    }
    assert ended["child"]["OverallBestTrainingJob"]
    assert sum(ended["child"]["TrainingJobStatusCounters"].values()) < 9, "the target ends it"

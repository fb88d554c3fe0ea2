"""The example of experiments: one flow, whose jobs every stock client sees with equal numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.sdks import run_sdk

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/by_feature/experiments"
HERE = Path(__file__).parent
pytestmark = pytest.mark.timeout(900)


def test_the_jobs_of_one_flow_have_equal_numbers_in_every_client(server, tmp_path, monkeypatch):
    keys = json.loads(server.root.credentials_file.read_text())
    environ = {
        **server.sdk_environ(),
        "MLFLOW_TRACKING_URI": server.endpoint,
        "MLFLOW_TRACKING_USERNAME": keys["access_key"],
        "MLFLOW_TRACKING_PASSWORD": keys["secret_key"],
        "IMAGE": server.image,
    }
    monkeypatch.chdir(tmp_path)
    flow = run_sdk("v2", EXAMPLE / "notebook_v2.py", environ=environ)
    seen = run_sdk("v3", EXAMPLE / "with_mlflow.py", flow["experiment"], environ=environ)
    assert len(flow["losses"]) == 2
    assert seen["losses"] == flow["losses"]
    # The same job by boto3, and its lineage: data, code and image.
    api = server.boto("sagemaker")
    run = api.describe_trial_component(
        TrialComponentName=f"{flow['experiment']}-0-aws-training-job"
    )
    (loss,) = run["Metrics"]
    assert (loss["Last"], loss["Count"]) == (flow["losses"]["rate-0"], 4)
    arns = [
        each["Arn"]
        for each in api.query_lineage(
            StartArns=[run["TrialComponentArn"]], Direction="Ascendants", IncludeEdges=False
        )["Vertices"]
    ]
    found = [api.describe_artifact(ArtifactArn=arn) for arn in arns if "artifact/" in arn]
    places = {each["ArtifactType"]: each["Source"]["SourceUri"] for each in found}
    assert places["DataSet"].endswith("train.csv")
    assert places["SourceCode"].endswith("sourcedir.tar.gz")
    assert places["Image"] == server.image
    assert all("sha256:" in str(each["Source"]["SourceTypes"]) for each in found[:2])
    old = run_sdk("v2", HERE / "smexperiments_flow.py", "old-flow", environ=environ)
    assert old["parameters"] == {"mean": 0.13, "kind": "mnist"}
    assert (old["inputs"], old["trials"]) == (["data"], ["old-flow-cnn"])

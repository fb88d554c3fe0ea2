"""What the MLflow face refuses and how it sorts: as `mlflow server` 3.17 on sqlite answers."""

from __future__ import annotations

import pytest

from stoker.platform.model.faults import ApiFault
from stoker.platform.tracking.mlflow import MlflowOperations
from stoker.storage.mlflow import clean_name
from stoker.tracking.store import RunStore

INVALID, MISSING = "INVALID_PARAMETER_VALUE", "RESOURCE_DOES_NOT_EXIST"
BAD_NAMES = ("acc@5", "a$b", "/x", "a/../b", "a//b", "a/", "..", "..x", "k" * 251, "a\tb")


@pytest.fixture
def call(tmp_path):
    store = RunStore(tmp_path / "runs.sqlite")
    rows = MlflowOperations(store).operations()
    yield lambda operation, **params: rows[operation](params)
    store.close()


def refusal(call, operation, **params) -> str:
    with pytest.raises(ApiFault) as refused:
        call(operation, **params)
    return refused.value.code


def make_run(call, **pairs) -> str:
    run = call("POST runs/create", experiment_id="0")["run"]["info"]["run_id"]
    params = [{"key": key, "value": value} for key, value in pairs.items()]
    call("POST runs/log-batch", run_id=run, params=params)
    return run


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_an_mlflow_server_refuses_is_refused(call, name):
    run = make_run(call)
    for operation, more in (
        ("POST runs/log-parameter", {"value": "1"}),
        ("POST runs/log-metric", {"value": 1}),
        ("POST runs/set-tag", {"value": "1"}),
        ("POST experiments/set-experiment-tag", {"value": "1", "experiment_id": "0"}),
    ):
        assert refusal(call, operation, run_id=run, key=name, **more) == INVALID, operation
    assert clean_name(clean_name(name)) == clean_name(name)
    call("POST runs/log-metric", run_id=run, key=clean_name(name), value=1)


def test_a_name_that_an_mlflow_server_takes_is_taken(call):
    run = make_run(call)
    for name in ("loss", "val/acc", "val:acc", "a b.c-d", "précision", ".hidden", "k" * 250):
        call("POST runs/log-metric", run_id=run, key=name, value=1)
        assert call("GET metrics/get-history", run_id=run, metric_key=name)["metrics"]


def test_what_cannot_be_done_twice_is_refused(call):
    run = make_run(call)
    pairs = [{"key": "lr", "value": "1"}, {"key": "lr", "value": "1"}]
    assert refusal(call, "POST runs/log-batch", run_id=run, params=pairs) == INVALID
    assert refusal(call, "POST runs/delete-tag", run_id=run, key="none") == MISSING
    assert refusal(call, "POST experiments/create", name="e" * 501) == INVALID
    made = call("POST experiments/create", name="e")
    assert refusal(call, "POST experiments/restore", **made) == MISSING
    call("POST experiments/delete", **made)
    assert refusal(call, "POST experiments/delete", **made) == MISSING
    call("POST registered-models/create", name="net")
    version = call("POST model-versions/create", name="net", source="s3://b/k")["model_version"]
    for alias in ("v1", "Latest", "a b", "x" * 256):
        asked = {"name": "net", "alias": alias, "version": version["version"]}
        assert refusal(call, "POST registered-models/alias", **asked) == INVALID, alias


def test_parameters_are_sorted_as_texts_and_data_sets_not_at_all(call):
    for epochs in ("10", "9", "2"):
        make_run(call, epochs=epochs)
    found = call("POST runs/search", experiment_ids=["0"], order_by=["params.epochs DESC"])["runs"]
    assert [each["data"]["params"][0]["value"] for each in found] == ["9", "2", "10"]
    asked = {"experiment_ids": ["0"], "order_by": ["dataset.name"]}
    assert refusal(call, "POST runs/search", **asked) == INVALID
    for text in ("status IN ('FINISHED')", "name = 'a'"):
        assert refusal(call, "POST runs/search", experiment_ids=["0"], filter=text) == INVALID

"""Ten thousand runs, and clients that send more than anybody reads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from stoker.platform.tracking.mlflow import MlflowOperations
from stoker.platform.tracking.search import SearchOperations
from stoker.platform.tracking.tracked import make_run
from stoker.tracking.records import Run
from stoker.tracking.series import Point
from stoker.tracking.store import RunStore

_RUNS = 10_000


@pytest.fixture
def store(tmp_path):
    made = RunStore(tmp_path / "runs.sqlite")
    yield made
    made.close()


def test_ten_thousand_runs_are_found_filtered_and_paged_by_both_clients(store):
    with store.transaction():
        for number in range(_RUNS):
            store.add(make_run(f"run-{number}", parameters={"n": float(number)}))
            store.log(f"run-{number}", [("loss", Point(0, 0, _RUNS - number))])
    search = SearchOperations(store, {}).search
    asked = {
        "Resource": "ExperimentTrialComponent",
        "SearchExpression": {
            "Filters": [{"Name": "Parameters.n", "Operator": "LessThan", "Value": "9000"}]
        },
        "SortBy": "metrics.loss.last",
        "SortOrder": "Ascending",
        "MaxResults": 100,
    }
    names, more = [], {}
    while True:
        page = search({**asked, **more})
        names += [each["TrialComponent"]["TrialComponentName"] for each in page["Results"]]
        if "NextToken" not in page:
            break
        more = {"NextToken": page["NextToken"]}
    assert names == [f"run-{number}" for number in range(8999, -1, -1)]
    mlflow = MlflowOperations(store).operations()["POST runs/search"]
    body = {"experiment_ids": ["0"], "filter": "metrics.loss > 1000", "max_results": 1000}
    found, more = [], {}
    while True:
        page = mlflow({**body, "order_by": ["metrics.loss DESC"], **more})
        found += [each["info"]["run_name"] for each in page["runs"]]
        if "next_page_token" not in page:
            break
        more = {"page_token": page["next_page_token"]}
    assert found == [f"run-{number}" for number in range(9000)]


def test_a_flood_of_metrics_loses_no_value_and_other_clients_are_answered(store):
    rows = MlflowOperations(store).operations()
    run = rows["POST runs/create"]({"experiment_id": "0"})["run"]["info"]["run_id"]

    def flood(writer: int) -> None:
        for batch in range(30):
            metrics = [
                {"key": f"m{writer % 2}", "value": i, "step": batch * 250 + i, "timestamp": writer}
                for i in range(250)
            ]
            rows["POST runs/log-batch"]({"run_id": run, "metrics": metrics})

    counts = []
    with ThreadPoolExecutor(4) as pool:
        writers = [pool.submit(flood, writer) for writer in range(4)]
        while not all(writer.done() for writer in writers):
            (seen,) = rows["POST runs/search"]({"experiment_ids": ["0"]})["runs"]
            counts.append(sum(s.count for s in store.summaries_of(store.read_all(Run)[0].name)))
            assert seen["info"]["status"] == "RUNNING"
        for writer in writers:
            writer.result()
    assert counts == sorted(counts)
    for key in ("m0", "m1"):
        history = rows["GET metrics/get-history"]({"run_id": run, "metric_key": key})["metrics"]
        assert len(history) == 2 * 30 * 250
        for writer in {each["timestamp"] for each in history}:
            own = [each["step"] for each in history if each["timestamp"] == writer]
            assert own == list(range(30 * 250))

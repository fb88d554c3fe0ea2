"""What stock MLflow and pandas see of exported runs; the last line says it."""

from __future__ import annotations

import json
import sys

import mlflow
import pandas

address, folder = sys.argv[1:]
mlflow.set_tracking_uri(address)
(run,) = mlflow.search_runs(experiment_names=["jobs"], output_format="list")
history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "loss")
rows = pandas.read_parquet(f"{folder}/runs.parquet")
points = pandas.read_parquet(f"{folder}/points.parquet")
print(
    json.dumps(
        {
            "run": [
                run.info.run_name,
                run.info.status,
                run.data.params["lr"],
                [[each.step, each.value] for each in history],
            ],
            "rows": rows[["name", "params.lr", "metrics.loss"]].values.tolist(),
            "points": points[["step", "value"]].values.tolist(),
        }
    )
)

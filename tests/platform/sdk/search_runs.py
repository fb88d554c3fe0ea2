"""The numbers of that job by mlflow.search_runs, in the last line."""

from __future__ import annotations

import json

import mlflow

(run,) = mlflow.search_runs(experiment_names=["equal"], output_format="list")
history = [
    point.value for point in mlflow.MlflowClient().get_metric_history(run.info.run_id, "val:loss")
]
last = run.data.metrics["val:loss"]
print(
    json.dumps(
        {
            "by_mlflow": ["val:loss", last, min(history), max(history), len(history)],
            "params": [run.data.params["lr"], run.data.params["note"]],
        }
    )
)

"""What a user of stock MLflow does; the last line says what was seen."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import mlflow

kind, uri = sys.argv[1:]
mlflow.set_tracking_uri(uri)
experiment = mlflow.set_experiment(f"With MLflow {kind}")
with mlflow.start_run(run_name="first", tags={"team": "a"}) as active:
    mlflow.log_params({"lr": 0.5, "optimizer": "adam"})
    for step in range(5):
        mlflow.log_metric("loss", 1 / (step + 1), step=step)
    mlflow.log_metrics({"nan": math.nan, "inf": math.inf})
    mlflow.set_tag("note", "x" * 3000)
    Path("model.txt").write_text("weights")
    mlflow.log_artifact("model.txt")
try:
    with mlflow.start_run(run_name="second"):
        mlflow.log_param("lr", 0.1)
        raise KeyError("the script failed")
except KeyError:
    pass
client = mlflow.MlflowClient()
changed = ""
try:
    client.log_param(active.info.run_id, "lr", 0.7)
except mlflow.exceptions.MlflowException as error:
    changed = error.error_code
unknown = ""
try:
    client.get_run("0" * 32)
except mlflow.exceptions.MlflowException as error:
    unknown = error.error_code
history = client.get_metric_history(active.info.run_id, "loss")
mine = {"experiment_ids": [experiment.experiment_id], "output_format": "list"}
best = mlflow.search_runs(order_by=["metrics.loss ASC"], **mine)
found = mlflow.search_runs(filter_string="params.lr = '0.1' and tags.team IS NULL", **mine)
nothing = mlflow.search_runs(filter_string="metrics.loss > 0.5", **mine)
(job,) = mlflow.search_runs(experiment_names=["jobs"], output_format="list")
client.delete_run(found[0].info.run_id)
print(
    json.dumps(
        {
            "history": [[each.step, each.value] for each in history],
            "names": [run.info.run_name for run in best],
            "statuses": [run.info.status for run in best],
            "special": [
                best[0].data.metrics["nan"] != best[0].data.metrics["nan"],
                best[0].data.metrics["inf"] == math.inf,
            ],
            "note": len(best[0].data.tags["note"]),
            "found": [run.info.run_name for run in found],
            "nothing": len(nothing),
            "left": len(mlflow.search_runs(**mine)),
            "artifacts": [each.path for each in client.list_artifacts(active.info.run_id)],
            "errors": [changed, unknown],
            "job": {**job.data.params, **job.data.metrics, "status": job.info.status},
        }
    )
)

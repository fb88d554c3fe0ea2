"""The jobs of an experiment as MLflow sees them, with a run of its own next to them.

Run it:   eval "$(stoker local env)"
          python examples/by_feature/experiments/with_mlflow.py EXPERIMENT
"""

from __future__ import annotations

import json
import os
import sys

import mlflow


def main(experiment: str) -> dict[str, object]:
    mlflow.set_tracking_uri(os.environ["MLFLOW_TRACKING_URI"])
    mlflow.set_experiment(experiment)
    jobs = mlflow.search_runs(
        filter_string="attributes.run_name LIKE 'rate%'",
        order_by=["metrics.`train:loss` ASC"],
        output_format="list",
    )
    losses = {run.info.run_name: run.data.metrics["train:loss"] for run in jobs}
    with mlflow.start_run(run_name="choice") as choice:
        mlflow.log_param("best", jobs[0].info.run_name)
        mlflow.log_metric("loss", min(losses.values()))
        mlflow.log_dict(losses, "losses.json")
    return {"losses": losses, "choice": choice.info.run_id}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))

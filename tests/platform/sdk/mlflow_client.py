"""What a user of stock MLflow does; the last line says what was seen."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import mlflow
from mlflow.entities import Dataset, DatasetInput, InputTag

kind, uri = sys.argv[1:]
mlflow.set_tracking_uri(uri)
mlflow.set_experiment(f"With MLflow + {kind}")
experiment = mlflow.set_experiment(f"With MLflow + {kind}")  # the second time it is found
with mlflow.start_run(run_name="first", tags={"team": "a"}) as active:
    mlflow.log_params({"lr": 0.5, "optimizer": "adam"})
    for step in range(5):
        mlflow.log_metric("loss", 1 / (step + 1), step=step)
    mlflow.log_metrics({"nan": math.nan, "inf": math.inf})
    mlflow.set_tag("note", "x" * 3000)
    Path("model.txt").write_text("weights")
    mlflow.log_artifact("model.txt")
    dataset = Dataset(name="iris", digest="1", source_type="http", source='{"url": "http://h"}')
    data = DatasetInput(dataset, [InputTag("mlflow.data.context", "training")])
    mlflow.MlflowClient().log_inputs(active.info.run_id, [data])
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
by_data = mlflow.search_runs(
    filter_string="dataset.name ILIKE 'IR%' AND dataset.context = 'training'", **mine
)
refused = []
for text in ("params.lr < 1", "metrics.loss = '1'", "loss < 1", "status = FINISHED"):
    try:
        mlflow.search_runs(filter_string=text, **mine)
    except mlflow.exceptions.MlflowException as error:
        refused.append(error.error_code)


def register_model() -> list[object]:
    """A model of a run by a name, found by its alias."""
    client.create_registered_model("net", tags={"team": "a"})
    for source in ("first", "second"):
        version = client.create_model_version("net", f"{active.info.artifact_uri}/{source}")
    client.set_registered_model_alias("net", "champion", "1")
    chosen = client.get_model_version_by_alias("net", "champion")
    (found,) = client.search_registered_models("name LIKE 'n%'")
    newest = client.search_model_versions("name = 'net'", order_by=["version_number DESC"])[0]
    return [version.version, chosen.source[-5:], found.aliases["champion"], newest.source[-6:]]


def log_model() -> list[object]:
    """A model that any client loads again, with a metric of its own."""

    class Constant(mlflow.pyfunc.PythonModel):
        def predict(self, model_input: list[float]) -> list[float]:
            return [42.0 for _ in model_input]

    with mlflow.start_run(run_name="model"):
        logged = mlflow.pyfunc.log_model(
            name="net", python_model=Constant(), pip_requirements=[], registered_model_name="own"
        )
        mlflow.log_metric("accuracy", 0.9, model_id=logged.model_id)
    (model,) = mlflow.search_logged_models(
        [experiment.experiment_id], "metrics.accuracy > 0.5", output_format="list"
    )
    loaded = mlflow.pyfunc.load_model("models:/own/1")
    outputs = client.get_run(logged.run_id).outputs.model_outputs
    is_output = [each.model_id for each in outputs] == [model.model_id]
    return [model.name, is_output, loaded.predict([1.0])]


is_newest = mlflow.__version__.startswith("3")
models = log_model() if is_newest else []
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
            "left": len(mlflow.search_runs(filter_string="metrics.loss < 1", **mine)),
            "artifacts": [each.path for each in client.list_artifacts(active.info.run_id)],
            "errors": [changed, unknown, *refused],
            "by_data": [run.info.run_name for run in by_data],
            "data": [each.dataset.name for each in by_data[0].inputs.dataset_inputs],
            "registered": register_model(),
            "models": models,
            "job": {**job.data.params, **job.data.metrics, "status": job.info.status},
        }
    )
)

"""A user's script: SDK v2's HyperparameterTuner, written from AWS's documentation only."""

from __future__ import annotations

import json
import sys

import sagemaker
from sagemaker.estimator import Estimator
from sagemaker.tuner import (
    CategoricalParameter,
    ContinuousParameter,
    HyperbandStrategyConfig,
    HyperparameterTuner,
    IntegerParameter,
    StrategyConfig,
    TuningJobCompletionCriteriaConfig,
    WarmStartConfig,
    WarmStartTypes,
)

METRICS = [
    {"Name": "train:loss", "Regex": "train_loss=([0-9.]+)"},
    {"Name": "train:acc", "Regex": "train_acc=([0-9.]+)"},
    {"Name": "val:loss", "Regex": "val_loss=([0-9.]+)"},
    {"Name": "val:acc", "Regex": "val_acc=([0-9.]+)"},
]
RANGES = {
    "lr": ContinuousParameter(0.0001, 0.1, scaling_type="Logarithmic"),
    "layers": IntegerParameter(1, 4),
    "optimizer": CategoricalParameter(["sgd", "adam"]),
}
image, source = sys.argv[1:]
session = sagemaker.Session()


def make_estimator(**more) -> Estimator:
    return Estimator(
        image_uri=image,
        role="arn:aws:iam::000000000000:role/any",
        instance_type="ml.m5.xlarge",
        instance_count=1,
        entry_point="train.py",
        source_dir=source,
        hyperparameters={"epochs": 3},
        sagemaker_session=session,
        **more,
    )


def make_tuner(**more) -> HyperparameterTuner:
    arguments = {"max_jobs": 2, "max_parallel_jobs": 2, "random_seed": 7, **more}
    return HyperparameterTuner(
        make_estimator(), "val:acc", RANGES, metric_definitions=METRICS, **arguments
    )


tuner = make_tuner(max_jobs=3, base_tuning_job_name="book", tags=[{"Key": "a", "Value": "b"}])
tuner.fit()
frame = tuner.analytics().dataframe()
attached = HyperparameterTuner.attach(tuner.latest_tuning_job.name, sagemaker_session=session)
best = tuner.best_estimator()
# identical_dataset_and_algorithm_tuner() of this SDK loses the metric definitions.
warm_start = WarmStartConfig(
    WarmStartTypes.IDENTICAL_DATA_AND_ALGORITHM, parents={tuner.latest_tuning_job.name}
)
# The SDK's own names are those of the minute: each tuner needs a base of its own.
child = make_tuner(warm_start_config=warm_start, base_tuning_job_name="child")
child.fit(wait=False)  # those from here on run side by side
several = HyperparameterTuner.create(
    {"one": make_estimator(), "two": make_estimator()},
    {"one": "val:acc", "two": "val:acc"},
    {"one": RANGES, "two": RANGES},
    metric_definitions_dict={"one": METRICS, "two": METRICS},
    max_jobs=2,
    max_parallel_jobs=2,
    base_tuning_job_name="several",
)
several.fit(include_cls_metadata={"one": False, "two": False}, wait=False)
hyperband = make_tuner(
    base_tuning_job_name="rungs",
    strategy="Hyperband",
    strategy_config=StrategyConfig(HyperbandStrategyConfig(max_resource=3, min_resource=1)),
)
hyperband.fit(wait=False)
early = make_tuner(
    base_tuning_job_name="early",
    early_stopping_type="Auto",
    completion_criteria_config=TuningJobCompletionCriteriaConfig(
        target_objective_metric_value=0.1
    ),
)
early.fit(wait=False)
hinted = make_estimator()
hinted.set_hyperparameters(lr=0.01, layers=2, optimizer="adam")
auto = HyperparameterTuner(
    hinted,
    "val:acc",
    None,
    metric_definitions=METRICS,
    autotune=True,
    max_jobs=1,
    base_tuning_job_name="auto",
)
auto.fit(wait=False)
stopped = make_tuner(max_jobs=9, base_tuning_job_name="stopped")
stopped.fit(wait=False)
stopped.stop_tuning_job()
for each in (child, several, hyperband, early, auto, stopped):
    each.wait()
print(
    json.dumps(
        {
            "columns": sorted(frame.columns),
            "rows": json.loads(frame.to_json(orient="records")),
            "best": tuner.best_training_job(),
            "model": best.model_data,
            "best_lr": best.hyperparameters()["lr"],
            "attached": attached.best_training_job(),
            "ranges": sorted(attached.hyperparameter_ranges()["ContinuousParameterRanges"][0]),
            "overall": child.describe()["OverallBestTrainingJob"]["TrainingJobName"],
            "definitions": sorted(several.analytics().dataframe()["TrainingJobDefinitionName"]),
            "hyperband": hyperband.describe()["HyperParameterTuningJobStatus"],
            "early": early.describe()["HyperParameterTuningJobStatus"],
            "auto": json.loads(auto.analytics().dataframe().to_json(orient="records")),
            "stopped": stopped.describe()["HyperParameterTuningJobStatus"],
        }
    )
)

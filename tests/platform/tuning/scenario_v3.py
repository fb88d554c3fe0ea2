"""A user's script: SDK v3's HyperparameterTuner, written from AWS's documentation only."""

from __future__ import annotations

import json
import sys

from sagemaker.core.parameter import (
    CategoricalParameter,
    ContinuousParameter,
    IntegerParameter,
)
from sagemaker.core.shapes import (
    HyperbandStrategyConfig,
    HyperParameterTuningJobStrategyConfig,
    HyperParameterTuningJobWarmStartConfig,
    ParentHyperParameterTuningJob,
    TuningJobCompletionCriteria,
)
from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, SourceCode
from sagemaker.train.tuner import HyperparameterTuner

METRICS = [
    {"Name": "train:loss", "Regex": "train_loss=([0-9.]+)"},
    {"Name": "val:acc", "Regex": "val_acc=([0-9.]+)"},
]
RANGES = {
    "lr": ContinuousParameter(0.0001, 0.1, scaling_type="Logarithmic"),
    "layers": IntegerParameter(1, 4),
    "optimizer": CategoricalParameter(["sgd", "adam"]),
}
image, source = sys.argv[1:]


def make_trainer() -> ModelTrainer:
    return ModelTrainer(
        training_image=image,
        role="arn:aws:iam::000000000000:role/any",
        base_job_name="book",
        compute=Compute(instance_type="ml.m5.xlarge", instance_count=1),
        source_code=SourceCode(source_dir=source, entry_script="train.py"),
        hyperparameters={"epochs": 3},
    )


def make_tuner(**more) -> HyperparameterTuner:
    arguments = {"max_jobs": 3, "max_parallel_jobs": 2, "random_seed": 7, **more}
    trainer = make_trainer()
    return HyperparameterTuner(trainer, "val:acc", RANGES, metric_definitions=METRICS, **arguments)


tuner = make_tuner(base_tuning_job_name="book")
tuner.tune(wait=True)
frame = tuner.analytics().dataframe()
parent = ParentHyperParameterTuningJob(
    hyper_parameter_tuning_job_name=tuner.latest_tuning_job.hyper_parameter_tuning_job_name
)
child = make_tuner(
    max_jobs=9,
    base_tuning_job_name="child",
    completion_criteria_config=TuningJobCompletionCriteria(target_objective_metric_value=0.1),
    warm_start_config=HyperParameterTuningJobWarmStartConfig(
        parent_hyper_parameter_tuning_jobs=[parent],
        warm_start_type="IdenticalDataAndAlgorithm",
    ),
)
child.tune(wait=False)
rungs = HyperbandStrategyConfig(min_resource=1, max_resource=3)
hyperband = make_tuner(
    base_tuning_job_name="rungs",
    strategy="Hyperband",
    strategy_config=HyperParameterTuningJobStrategyConfig(hyperband_strategy_config=rungs),
)
hyperband.tune(wait=False)
# Several definitions: this SDK fails in its own code (`create` leaves model_trainer None).
stopped = make_tuner(max_jobs=9, early_stopping_type="Auto", base_tuning_job_name="stopped")
stopped.tune(wait=False)
stopped.stop_tuning_job()
described = tuner.describe()
print(
    json.dumps(
        {
            "columns": sorted(frame.columns),
            "rows": json.loads(frame.to_json(orient="records")),
            "best": tuner.best_training_job(),
            "status": described.hyper_parameter_tuning_job_status,
        }
    )
)

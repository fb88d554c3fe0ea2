r"""Search hyperparameters of train.py with SageMaker's SDK v3: here or in the cloud, unchanged.

Here:     stoker local up --detach && eval "$(stoker local env)"
          python examples/by_feature/tuning/tuner_v3.py
Cloud:    pass --image and --role

Needs `pip install sagemaker`.
"""

import argparse
from pathlib import Path

from sagemaker.core.parameter import (
    CategoricalParameter,
    ContinuousParameter,
    IntegerParameter,
)
from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, SourceCode
from sagemaker.train.tuner import HyperparameterTuner

HERE = Path(__file__).resolve().parent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--image", default="stoker:cpu")
    parser.add_argument("--role", default="arn:aws:iam::000000000000:role/stoker-local")
    parser.add_argument("--trials", type=int, default=4)
    args = parser.parse_args()
    trainer = ModelTrainer(
        training_image=args.image,
        role=args.role,
        base_job_name="moons",
        compute=Compute(instance_type="ml.m5.xlarge", instance_count=1),
        source_code=SourceCode(source_dir=str(HERE), entry_script="train.py"),
        hyperparameters={"epochs": 9},
    )
    tuner = HyperparameterTuner(
        trainer,
        objective_metric_name="val_acc",
        metric_definitions=[{"Name": "val_acc", "Regex": r"val_acc=([0-9.]+)"}],
        hyperparameter_ranges={
            "lr": ContinuousParameter(1e-4, 1e-1, scaling_type="Logarithmic"),
            "layers": IntegerParameter(1, 3),
            "optimizer": CategoricalParameter(["sgd", "adam"]),
        },
        max_jobs=args.trials,
        max_parallel_jobs=2,
        random_seed=7,
        base_tuning_job_name="moons",
    )
    tuner.tune(wait=True)
    print(tuner.analytics().dataframe().to_string())
    print(f"best: {tuner.best_training_job()}")


if __name__ == "__main__":
    main()

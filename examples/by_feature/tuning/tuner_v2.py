r"""Search hyperparameters of train.py with SageMaker's SDK v2: here or in the cloud, unchanged.

Here:     stoker local up --detach && eval "$(stoker local env)"
          python examples/by_feature/tuning/tuner_v2.py
Cloud:    pass --image and --role

Needs `pip install 'sagemaker<3'`.
"""

import argparse
from pathlib import Path

import sagemaker
from sagemaker.estimator import Estimator
from sagemaker.tuner import (
    CategoricalParameter,
    ContinuousParameter,
    HyperparameterTuner,
    IntegerParameter,
)

HERE = Path(__file__).resolve().parent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--image", default="stoker:cpu")
    parser.add_argument("--role", default="arn:aws:iam::000000000000:role/stoker-local")
    parser.add_argument("--trials", type=int, default=4)
    args = parser.parse_args()
    estimator = Estimator(
        image_uri=args.image,
        role=args.role,
        instance_type="ml.m5.xlarge",
        instance_count=1,
        entry_point="train.py",
        source_dir=str(HERE),
        hyperparameters={"epochs": 9},
        sagemaker_session=sagemaker.Session(),
    )
    tuner = HyperparameterTuner(
        estimator,
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
    tuner.fit()
    print(tuner.analytics().dataframe().to_string())
    print(f"best: {tuner.best_training_job()}")


if __name__ == "__main__":
    main()

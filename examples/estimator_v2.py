r"""Train examples/00_unchanged_script with SageMaker's SDK v2: here or in the cloud, unchanged.

Here:     stoker local up --detach && eval "$(stoker local env)"
          python examples/estimator_v2.py
Cloud:    python examples/estimator_v2.py \
              --image <account>.dkr.ecr.<region>.amazonaws.com/stoker:<tag> --role <role ARN>

Needs `pip install 'sagemaker<3'` and the data: python examples/00_unchanged_script/make_data.py
"""

import argparse
from pathlib import Path

import sagemaker
from sagemaker.estimator import Estimator

EXAMPLE = Path(__file__).resolve().parent / "00_unchanged_script"


def main() -> None:
    args = parse_arguments()
    session = sagemaker.Session()
    estimator = Estimator(
        image_uri=args.image,
        role=args.role,
        instance_type=args.instance_type,
        instance_count=1,
        entry_point="train.py",
        source_dir=str(EXAMPLE / "src"),
        hyperparameters={"epochs": args.epochs},
        metric_definitions=[
            {"Name": "loss", "Regex": "^epoch .* loss=([0-9.]+)"},
            {"Name": "accuracy", "Regex": "^epoch .* accuracy=([0-9.]+)"},
        ],
        sagemaker_session=session,
    )
    data = session.upload_data(str(args.data), key_prefix="shapes")
    estimator.fit({"train": data})
    for metric in estimator.latest_training_job.describe()["FinalMetricDataList"]:
        print(f"{metric['MetricName']}: {metric['Value']:g}")
    print(f"model: {estimator.model_data}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train the example with SDK v2.")
    parser.add_argument("--image", default="stoker:cpu")
    parser.add_argument("--role", default="arn:aws:iam::000000000000:role/stoker-local")
    parser.add_argument("--instance-type", default="ml.g5.xlarge")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--data", type=Path, default=EXAMPLE / "data")
    return parser.parse_args()


if __name__ == "__main__":
    main()

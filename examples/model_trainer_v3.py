r"""Train examples/00_unchanged_script with SageMaker's SDK v3: here or in the cloud, unchanged.

Here:     stoker local up --detach && eval "$(stoker local env)"
          python examples/model_trainer_v3.py
Cloud:    python examples/model_trainer_v3.py \
              --image <account>.dkr.ecr.<region>.amazonaws.com/stoker:<tag> --role <role ARN>

Needs `pip install sagemaker` and the data: python examples/00_unchanged_script/make_data.py
"""

import argparse
from pathlib import Path

import boto3
from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, InputData, MetricDefinition, SourceCode

EXAMPLE = Path(__file__).resolve().parent / "00_unchanged_script"
BASE_NAME = "shapes"


def main() -> None:
    args = parse_arguments()
    trainer = ModelTrainer(
        training_image=args.image,
        role=args.role,
        base_job_name=BASE_NAME,
        compute=Compute(instance_type=args.instance_type, instance_count=1),
        source_code=SourceCode(source_dir=str(EXAMPLE / "src"), entry_script="train.py"),
        hyperparameters={"epochs": args.epochs},
    ).with_metric_definitions(
        [
            MetricDefinition(name="loss", regex="^epoch .* loss=([0-9.]+)"),
            MetricDefinition(name="accuracy", regex="^epoch .* accuracy=([0-9.]+)"),
        ]
    )
    trainer.train(input_data_config=[InputData(channel_name="train", data_source=str(args.data))])
    job = find_newest_job()
    for metric in job["FinalMetricDataList"]:
        print(f"{metric['MetricName']}: {metric['Value']:g}")
    print(f"model: {job['ModelArtifacts']['S3ModelArtifacts']}")


def find_newest_job() -> dict:
    client = boto3.client("sagemaker")
    (newest,) = client.list_training_jobs(
        NameContains=BASE_NAME, SortBy="CreationTime", SortOrder="Descending", MaxResults=1
    )["TrainingJobSummaries"]
    return client.describe_training_job(TrainingJobName=newest["TrainingJobName"])


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train the example with SDK v3.")
    parser.add_argument("--image", default="stoker:cpu")
    parser.add_argument("--role", default="arn:aws:iam::000000000000:role/stoker-local")
    parser.add_argument("--instance-type", default="ml.g5.xlarge")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--data", type=Path, default=EXAMPLE / "data")
    return parser.parse_args()


if __name__ == "__main__":
    main()

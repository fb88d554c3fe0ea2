"""Stock SDK v3 code with rules, which only its resources take: rules_v3.py IMAGE SOURCE."""

import json
import sys
import time

import boto3
from sagemaker.core.debugger import Rule, rule_configs
from sagemaker.core.resources import TrainingJob
from sagemaker.core.shapes import (
    AlgorithmSpecification,
    Channel,
    CollectionConfiguration,
    DataSource,
    DebugHookConfig,
    DebugRuleConfiguration,
    OutputDataConfig,
    ResourceConfig,
    S3DataSource,
    StoppingCondition,
)

image, source = sys.argv[1:]
name = f"rules-v3-{time.time_ns()}"
bucket = "sagemaker-us-east-1-000000000000"
boto3.client("s3").upload_file(f"{source}/exploding.py", bucket, "rules-v3/code/exploding.py")
rule = Rule.sagemaker(
    rule_configs.exploding_tensor(),
    rule_parameters={"collection_names": "losses"},
    actions=rule_configs.ActionList(rule_configs.StopTraining()),
)
rule.prepare_actions(name)
job = TrainingJob.create(
    training_job_name=name,
    role_arn="arn:aws:iam::111122223333:role/SageMakerRole",
    algorithm_specification=AlgorithmSpecification(
        training_image=image, training_input_mode="File"
    ),
    hyper_parameters={"sagemaker_program": "exploding.py"},
    input_data_config=[
        Channel(
            channel_name="code",
            data_source=DataSource(
                s3_data_source=S3DataSource(
                    s3_data_type="S3Prefix", s3_uri=f"s3://{bucket}/rules-v3/code/"
                )
            ),
        )
    ],
    output_data_config=OutputDataConfig(s3_output_path=f"s3://{bucket}/rules-v3/output"),
    resource_config=ResourceConfig(
        instance_type="ml.g5.xlarge", instance_count=1, volume_size_in_gb=30
    ),
    stopping_condition=StoppingCondition(max_runtime_in_seconds=600),
    debug_hook_config=DebugHookConfig(
        s3_output_path=f"s3://{bucket}/rules-v3",
        collection_configurations=[
            CollectionConfiguration(
                collection_name="losses", collection_parameters={"save_interval": "1"}
            )
        ],
    ),
    debug_rule_configurations=[
        DebugRuleConfiguration(
            rule_configuration_name=rule.name,
            rule_evaluator_image="any",
            rule_parameters=rule.rule_parameters,
        )
    ],
)
job.wait()
job.refresh()
client = boto3.client("sagemaker")
print()
print(json.dumps(client.describe_training_job(TrainingJobName=name), default=str))

"""Stock SDK v2 code with the debugger, as AWS documents it: rules_v2.py IMAGE SOURCE."""

import json
import sys
import time

import boto3
import sagemaker
from sagemaker.debugger import (
    CollectionConfig,
    DebuggerHookConfig,
    ProfilerConfig,
    ProfilerRule,
    Rule,
    rule_configs,
)
from sagemaker.estimator import Estimator
from sagemaker.pytorch import PyTorch

image, source = sys.argv[1:]
session = sagemaker.Session()
bucket = session.default_bucket()
client = boto3.client("sagemaker")
common = {
    "image_uri": image,
    "role": "arn:aws:iam::111122223333:role/SageMakerRole",
    "instance_count": 1,
    "instance_type": "ml.g5.xlarge",
    "source_dir": source,
    # Five jobs begin at once here: the evaluator of one that is soon over may need its time.
    "environment": {"STOKER_RULES_FINISH_SECONDS": "600"},
    "sagemaker_session": session,
}


def hook(every):
    return DebuggerHookConfig(
        s3_output_path=f"s3://{bucket}/debug-v2",
        hook_parameters={"save_interval": str(every)},
        collection_configs=[
            CollectionConfig(name="losses", parameters={"save_interval": "1"}),
            CollectionConfig(name="gradients", parameters={"save_interval": str(every)}),
        ],
    )


def rules():
    stop = rule_configs.ActionList(rule_configs.StopTraining())
    return [
        Rule.sagemaker(rule_configs.vanishing_gradient(), actions=stop),
        Rule.sagemaker(
            rule_configs.exploding_tensor(),
            rule_parameters={"collection_names": "losses"},
            actions=rule_configs.ActionList(rule_configs.StopTraining()),
        ),
        Rule.sagemaker(
            rule_configs.loss_not_decreasing(),
            rule_parameters={"num_steps": "50", "increase_threshold_percent": "99"},
        ),
        Rule.custom(
            name="LargeGradient",
            image_uri="864354269164.dkr.ecr.us-east-1.amazonaws.com/any:latest",
            instance_type="ml.t3.medium",
            volume_size_in_gb=30,
            source=f"{source}/my_rules.py",
            rule_to_invoke="CustomGradientRule",
            rule_parameters={"threshold": "1000"},
        ),
    ]


def wait_for_end(job):
    while True:
        description = client.describe_training_job(TrainingJobName=job)
        if description["TrainingJobStatus"] in ("Completed", "Failed", "Stopped"):
            return description
        time.sleep(0.5)


jobs = {
    "tensors": Estimator(
        **common,
        entry_point="healthy.py",
        debugger_hook_config=hook(5),
        profiler_config=ProfilerConfig(
            s3_output_path=f"s3://{bucket}/profiles-v2", system_monitor_interval_millis=100
        ),
        rules=[
            ProfilerRule.sagemaker(rule_configs.ProfilerReport(CPUBottleneck_threshold=40)),
            ProfilerRule.sagemaker(rule_configs.LowGPUUtilization()),
        ],
    ),
    "healthy": Estimator(
        **common, entry_point="healthy.py", debugger_hook_config=hook(5), rules=rules()
    ),
    "exploding": Estimator(
        **common,
        entry_point="exploding.py",
        debugger_hook_config=hook(5),
        rules=rules(),
        checkpoint_s3_uri=f"s3://{bucket}/checkpoints-rules-v2",
    ),
    "two_hosts": PyTorch(
        **{**common, "instance_count": 2},
        entry_point="two_hosts.py",
        debugger_hook_config=hook(5),
        rules=rules(),
        distribution={"torch_distributed": {"enabled": True}},
    ),
}
started = int(time.time())
for name, estimator in jobs.items():
    estimator.fit(wait=False, job_name=f"rules-v2-{name.replace('_', '-')}-{started}")
results = {name: wait_for_end(job.latest_training_job.name) for name, job in jobs.items()}
for name, estimator in jobs.items():
    results[name]["summary"] = estimator.latest_training_job.rule_job_summary()
    results[name]["tensors"] = estimator.latest_job_debugger_artifacts_path()
print()
print(json.dumps(results, default=str))

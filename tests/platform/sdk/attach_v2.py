"""Stock SDK v2 code that goes back to a job: attach_v2.py SOURCE."""

import json
import sys

import sagemaker
from sagemaker.analytics import TrainingJobAnalytics
from sagemaker.debugger import ProfilerRule, Rule, rule_configs
from sagemaker.estimator import Estimator
from sagemaker.pytorch import PyTorch

session = sagemaker.Session()
common = {  # no role: the platform's own
    "image_uri": "any/image:1",
    "instance_count": 1,
    "instance_type": "ml.g5.xlarge",
    "source_dir": sys.argv[1],
    "entry_point": "hello.py",
    "sagemaker_session": session,
}
rules = [
    Rule.sagemaker(rule_configs.loss_not_decreasing()),
    ProfilerRule.sagemaker(rule_configs.ProfilerReport()),
]
trainings = {
    Estimator: Estimator(**common, hyperparameters={"epochs": 3}),
    PyTorch: PyTorch(**common, hyperparameters={"epochs": 3}, rules=rules, disable_profiler=False),
}
for trained in trainings.values():
    trained.fit(wait=False)
result = {"execution_role": sagemaker.get_execution_role()}
for kind, trained in trainings.items():
    attached = kind.attach(trained.latest_training_job.name, sagemaker_session=session)
    description = attached.latest_training_job.describe()
    result[kind.__name__] = {
        "status": description["TrainingJobStatus"],
        "role": attached.role,
        "epochs": attached.hyperparameters()["epochs"],
        "max_run": attached.max_run,
        "model_data": attached.model_data,
        "rules": [
            rule["VolumeSizeInGB"] for rule in description.get("DebugRuleConfigurations", [])
        ],
        "profiling": description["ProfilingStatus"],
        "interval": description.get("ProfilerConfig", {}).get("ProfilingIntervalInMilliseconds"),
    }
names = TrainingJobAnalytics(attached.latest_training_job.name, sagemaker_session=session)
result["metrics"] = names._metric_names
print(json.dumps(result))

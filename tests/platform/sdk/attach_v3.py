"""Stock SDK v3 code that goes back to a job, without a role of its own: attach_v3.py SOURCE."""

import json
import sys

from sagemaker.core.helper.session_helper import get_execution_role
from sagemaker.core.resources import TrainingJob
from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, SourceCode

trainer = ModelTrainer(
    training_image="any/image:1",
    base_job_name="attached",
    compute=Compute(instance_type="ml.g5.xlarge", instance_count=1),
    source_code=SourceCode(source_dir=sys.argv[1], entry_script="hello.py"),
)
trainer.train(wait=False)
job = TrainingJob.get(training_job_name=trainer._latest_training_job.training_job_name)
job.stop()
job.wait(poll=1)
result = {
    "execution_role": get_execution_role(),
    "status": job.training_job_status,
    "role": job.role_arn,
    "kms": job.output_data_config.kms_key_id,
    "max_run": job.stopping_condition.max_runtime_in_seconds,
    "profiling": job.profiling_status,
    "listed": [each.training_job_name for each in TrainingJob.get_all()],
    "name": job.training_job_name,
}
print(json.dumps(result))

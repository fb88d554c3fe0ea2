"""Stock local mode of SDK v3: model_trainer_v3.py IMAGE SOURCE DATA WORK INSTANCES…"""

import json
import sys
from pathlib import Path

from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, InputData, SourceCode
from sagemaker.train.model_trainer import Mode

image, source, data, work, *instances = sys.argv[1:]
models = {}
for count in instances:
    root = Path(work, f"root-{count}")  # fresh: the next model.tar.gz would hold this one's files
    root.mkdir()
    ModelTrainer(
        training_mode=Mode.LOCAL_CONTAINER,
        training_image=image,
        base_job_name="job",
        compute=Compute(instance_type="local_cpu", instance_count=int(count)),
        source_code=SourceCode(source_dir=source, entry_script="train.py"),
        hyperparameters={"epochs": 2},
        input_data_config=[InputData(channel_name="train", data_source=data)],
        local_container_root=str(root),
    ).train()
    models[count] = str(root / "compressed_artifacts/model.tar.gz")
print()
print(json.dumps({"models": models}))

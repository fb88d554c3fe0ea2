"""What a user of smexperiments does; the last line says what was seen."""

from __future__ import annotations

import json
import sys

import boto3
from smexperiments.experiment import Experiment
from smexperiments.tracker import Tracker
from smexperiments.trial import Trial

(name,) = sys.argv[1:]
client = boto3.client("sagemaker")
experiment = Experiment.create(experiment_name=name, sagemaker_boto_client=client)
with Tracker.create(display_name="preprocessing", sagemaker_boto_client=client) as tracker:
    tracker.log_parameters({"mean": 0.13, "kind": "mnist"})
    tracker.log_input(name="data", media_type="s3/uri", value="s3://bucket/raw")
trial = Trial.create(
    trial_name=f"{name}-cnn", experiment_name=experiment.experiment_name,
    sagemaker_boto_client=client,
)  # fmt: skip
trial.add_trial_component(tracker.trial_component)
component = next(iter(trial.list_trial_components()))
loaded = Tracker.load(
    trial_component_name=component.trial_component_name, sagemaker_boto_client=client
).trial_component
print(
    json.dumps(
        {
            "parameters": loaded.parameters,
            "inputs": list(loaded.input_artifacts),
            "trials": [each.trial_name for each in experiment.list_trials()],
        }
    )
)

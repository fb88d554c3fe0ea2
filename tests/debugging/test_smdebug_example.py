"""examples/seeds/smdebug_resnet.py: the explicit hook of old tutorials, as a job of ours."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import smdebug.pytorch as smd
import torch

pytestmark = pytest.mark.functional

SEED = Path(__file__).parents[2] / "examples/seeds/smdebug_resnet.py"
STEPS = 4  # of 16 images in one epoch


@pytest.fixture
def job(opt_ml):
    """The job after its end, and what it printed."""
    shutil.copy(SEED, opt_ml.root / "code")
    opt_ml.config(
        "debughookconfig",
        {
            "LocalPath": str(opt_ml.root / "output/tensors"),
            "HookParameters": {"save_interval": "2", "eval.save_interval": "1"},
            "CollectionConfigurations": [
                {"CollectionName": "losses", "CollectionParameters": {"train.save_interval": "1"}},
                {"CollectionName": "gradients", "CollectionParameters": {"reductions": "l2_norm"}},
                {"CollectionName": "relu", "CollectionParameters": {"include_regex": "relu.*out"}},
            ],
        },
    )
    opt_ml.hyperparameters(
        **{"sagemaker_program": SEED.name, "epochs": "1", "batch-size": "16", "images": "64"}
    )
    return opt_ml, opt_ml.run(OMP_NUM_THREADS="1", SMDEBUG_LOG_LEVEL="error")


def test_the_script_trains_as_a_job_and_its_tensors_are_read(job):
    opt_ml, done = job
    assert done.returncode == 0, done.stderr
    printed = re.search(r"^epoch 1 loss=(\S+) accuracy=(\S+)$", done.stdout, re.MULTILINE)
    assert "conv1.weight" in torch.load(opt_ml.root / "model/model.pt")

    trial = smd.create_trial(str(opt_ml.root / "output/tensors"))
    losses = trial.tensor("CrossEntropyLoss_output_0").values(mode=smd.modes.TRAIN)
    assert list(losses) == list(range(STEPS))
    assert float(losses[STEPS - 1]) == pytest.approx(float(printed[1]), abs=1e-4)
    assert trial.tensor("gradient/ResNet_fc.weight").steps(mode=smd.modes.TRAIN) == [0, 2]
    norm = trial.tensor("gradient/ResNet_fc.weight").reduction_value(0, "l2", mode=smd.modes.TRAIN)
    assert norm > 0
    assert len(trial.tensor_names(collection="relu")) == 7
    images = trial.tensor("relu_output_0").value(0, mode=smd.modes.TRAIN)
    assert images.shape == (16, 8, 32, 32)
    assert images.min() == 0
    accuracy = trial.tensor("scalar/accuracy").values(mode=smd.modes.EVAL)
    assert [float(v.item()) for v in accuracy.values()] == [
        pytest.approx(float(printed[2]), abs=1e-3)
    ]


def test_the_script_does_not_know_us():
    assert "stoker" not in SEED.read_text()

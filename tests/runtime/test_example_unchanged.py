"""examples/00_unchanged_script, as a user runs it: real data, a real process, our launcher."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

EXAMPLE = Path(__file__).parents[2] / "examples/00_unchanged_script"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return _make_data(tmp_path_factory.mktemp("data"))


def _make_data(folder):
    script = [sys.executable, EXAMPLE / "make_data.py", folder]
    counts = ["--images", "1000", "--test-images", "200"]
    subprocess.run([*script, *counts], check=True, timeout=240)
    return folder


def test_an_unchanged_script_trains_and_leaves_its_model(opt_ml, data):
    shutil.copytree(EXAMPLE / "src", opt_ml.root / "code", dirs_exist_ok=True)
    shutil.copytree(data, opt_ml.root / "input/data/train")
    opt_ml.config("inputdataconfig", {"train": {"TrainingInputMode": "File"}})
    opt_ml.hyperparameters(**{"sagemaker_program": "train.py", "epochs": "1", "batch-size": "50"})

    done = opt_ml.run()

    assert done.returncode == 0, done.stderr
    assert re.search(r"^epoch 1/1 loss=\d\.\d+ accuracy=0\.\d+ ", done.stdout, re.MULTILINE)
    assert "triangle" in torch.load(opt_ml.root / "model/model.pt")["classes"]
    assert not opt_ml.failure


def test_the_example_does_not_know_us():
    for file in EXAMPLE.rglob("*.py"):
        assert "stoker" not in file.read_text()


def test_the_data_is_the_same_every_time_and_holds_every_class(data, tmp_path):
    first = torch.load(data / "train.pt")
    again = torch.load(_make_data(tmp_path) / "train.pt")

    assert torch.equal(first["images"], again["images"])
    assert set(first["labels"].tolist()) == set(range(len(first["classes"])))

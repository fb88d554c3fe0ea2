"""Everything that smdebug's documentation shows, with the wheel that the image has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from stoker.debugging.repack import VERSION
from stoker.platform.model.root import open_root
from tests.debugging.buckets import serve_buckets
from tests.smdebug_wheels import make_wheels

pytestmark = pytest.mark.functional

HERE = Path(__file__).parent
QUIET = {**os.environ, "OMP_NUM_THREADS": "1", "SMDEBUG_LOG_LEVEL": "error"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    return make_wheels(tmp_path_factory.mktemp("wheels"))[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("tour")


@pytest.fixture(scope="module")
def seen(wheel, folder) -> dict:
    arguments = [wheel, folder, folder / "seen.json", "s3://bucket/run/tensors"]
    with serve_buckets(open_root(folder / "platform")) as s3:
        done = subprocess.run(
            [sys.executable, HERE / "smdebug_tour.py", *arguments],
            env={**QUIET, **s3},
            capture_output=True,
            text=True,
            timeout=240,
        )
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "seen.json").read_text())


def test_the_version_tells_ours_from_the_published(seen):
    assert seen["version"] == VERSION


def test_a_hook_from_sagemakers_file_saves_what_it_says(seen):
    found = seen["hook_from_json"]
    assert found["train_losses_read"] == found["train_losses"]
    assert found["eval_losses_read"] == found["eval_losses"]
    assert found["weight_steps"] == [0, 1, 2, 3]
    assert found["weights_equal"]
    assert found["gradient_reductions"] == [
        ["l1", False],
        ["l2", True],
        ["max", False],
        ["mean", False],
    ]
    assert found["gradient_has_no_value"] == "TensorUnavailableForStep"
    assert {"relu_output_0", "fc2_input_0", "Net_fc2.weight"} <= set(found["mine"])


def test_a_trial_answers_every_question_of_the_documentation(seen):
    assert seen["questions_to_a_trial"] == {
        "name": "tour",
        "names": ["Net_fc1.weight", "gradient/Net_fc1.bias", "gradient/Net_fc1.weight"],
        "gradients": 4,
        "losses": ["CrossEntropyLoss_output_0"],
        "steps": [0, 1, 2, 3, 4, 5],
        "steps_of_eval": [0, 1],
        "modes": ["EVAL", "TRAIN"],
        "mode": ["EVAL", 0, 5],
        "workers": [["worker_0"], ["worker_0"]],
        "collections": ["gradients", "mine", "weights"],
        "regex": ["relu_output", "fc2"],
        "has": [True, False],
        "passed": ["AVAILABLE", "UNAVAILABLE"],
        "previous": [2, 3],
        "range": [1, 2],
        "no_such_tensor": "TensorUnavailable",
        "no_more": "NoMoreData",
    }


def test_a_hook_by_hand_follows_modes_reductions_and_modules(seen):
    found = seen["hook_by_hand"]
    assert found["train_steps"] == [2, 4]
    assert found["eval_steps"] == [0, 1]
    assert (found["reductions"], found["reductions_differ"]) == (11, [])
    assert found["activations"] == ["relu_input_0", "relu_output_0"]
    assert found["default"] == ["fc2_input_0"]
    assert found["scalar"] == 0.75


def test_tensorboard_shows_scalars_and_histograms_of_each_mode(seen, folder):
    boards = {}
    for mode in ("TRAIN", "EVAL"):
        boards[mode] = EventAccumulator(str(folder / "hand/tensorboard" / mode))
        boards[mode].Reload()
    losses = [event.value for event in boards["TRAIN"].Scalars("CrossEntropyLoss_output_0")]
    assert losses == pytest.approx(seen["hook_by_hand"]["losses"])
    assert [event.value for event in boards["TRAIN"].Scalars("scalar/accuracy")] == [0.75]
    assert "scalar/accuracy" not in boards["EVAL"].Tags()["scalars"]
    histograms = boards["TRAIN"].Tags()["histograms"]
    assert "weights/Net_fc1.weight" in histograms
    assert "biases/Net_fc1.bias" not in histograms
    assert boards["TRAIN"].Histograms("weights/Net_fc1.weight")[0].histogram_value.num == 32


def test_functional_losses_and_own_tensors_are_recorded(seen):
    found = seen["functional_loss_and_own_tensors"]
    assert found["losses_read"] == found["losses"]
    assert found["in_losses"] == ["my_loss_output_0"]
    assert found["image"] == [[7.0, 7.0], [7.0, 7.0]]


def test_a_custom_rule_runs_to_the_end_or_until_it_fires(seen):
    assert seen["custom_rule"] == {
        "seen": [0, 1, 2],
        "ended": "NoMoreData",
        "fired": "RuleEvaluationConditionMet",
        "fired_at": 1,
    }


def test_it_can_be_switched_off(seen):
    assert seen["hook_on_demand"] == {"switched_off": True}


def test_tensors_go_to_s3_and_come_back(seen):
    found = seen["output_on_s3"]
    assert found["losses_read"] == found["losses"]
    assert found["gradients"] == 4


def test_two_ranks_save_side_by_side(wheel, tmp_path):
    ranks = [
        subprocess.Popen(
            [sys.executable, HERE / "smdebug_ddp.py", wheel, tmp_path, str(rank)],
            env=QUIET,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        errors = [rank.communicate(timeout=240)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], errors
    read = json.loads((tmp_path / "results.json").read_text())
    assert read["workers"] == ["worker_0", "worker_1"]
    assert read["steps"] == [0, 1]
    assert read["losses"][0] != read["losses"][1]
    assert sorted(read["gradients"]) == [
        "gradient/DistributedDataParallel_module.bias",
        "gradient/DistributedDataParallel_module.weight",
    ]

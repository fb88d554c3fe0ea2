"""The debugger's steps in TensorBoard, read by TensorBoard itself."""

from __future__ import annotations

import numpy as np
import pytest

from stoker.debugging.tensors.step_file import SavedStep
from stoker.metrics.saved_steps import SavedSteps, open_saved_steps


def test_losses_are_curves_and_tensors_histograms_in_a_run_for_each_mode(tmp_path):
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    ).EventAccumulator
    board = SavedSteps(str(tmp_path))
    weight = np.arange(6, dtype=np.float32)
    for step, mode in ((0, "TRAIN"), (3, "TRAIN"), (4, "EVAL")):
        tensors = {
            "Loss_output_0": np.float32(step).reshape(()),
            "each_loss_output_0": weight,
            "Net_weight": weight,
            "empty": weight[:0],
            "mask": weight > 3,
        }
        saved = SavedStep(step=step, mode=mode, mode_step=0, tensors=tensors)
        names = {"Net_weight": ("weights", "all"), "empty": ("all",), "mask": ("all",)}
        board.write(saved, ["Loss_output_0", "each_loss_output_0", "gone"], names)
    for file in board._files.values():
        file.close()
    train = accumulator(str(tmp_path / "TRAIN")).Reload()
    assert train.Tags()["scalars"] == ["Loss_output_0"]
    assert [(e.step, e.value) for e in train.Scalars("Loss_output_0")] == [(0, 0), (3, 3)]
    assert train.Tags()["histograms"] == ["weights/Net_weight"]
    assert train.Histograms("weights/Net_weight")[0].histogram_value.sum == 15
    evaluated = accumulator(str(tmp_path / "EVAL")).Reload()
    assert [e.step for e in evaluated.Scalars("Loss_output_0")] == [4]


def test_only_a_job_that_asked_for_tensorboard_has_it(job, tmp_path):
    assert open_saved_steps(job) is None
    asked = job.replace(services=job.services.replace(tensorboard={"LocalPath": str(tmp_path)}))
    assert open_saved_steps(asked) is not None

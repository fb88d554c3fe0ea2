"""Runs that are cut anywhere and resumed equal runs that are not, bit for bit."""

from __future__ import annotations

import pytest

from tests.checkpoints.runs import Run

pytestmark = [pytest.mark.functional, pytest.mark.usefixtures("fork_server")]


def test_a_run_stopped_in_mid_epoch_continues_as_if_nothing_had_happened(whole, tmp_path):
    run = Run(tmp_path)
    run.run("--stop-at=10")
    assert not run.weights
    said = run.finish()
    assert "resumed from step 11" in said
    assert run.losses() == whole.losses()
    assert run.weights == whole.weights


def test_a_run_killed_repeats_only_what_was_not_saved(whole, tmp_path):
    run = Run(tmp_path)
    code, _ = run.run("--stop-at=13", "--stop-by=kill")
    assert code == -9
    said = run.finish()
    assert "resumed from step " in said
    assert run.losses() == whole.losses()
    assert run.weights == whole.weights


def test_a_damaged_newest_is_named_and_the_one_before_is_taken(whole, tmp_path):
    run = Run(tmp_path)
    run.run("--stop-at=10")
    newest = max(run.checkpoints.iterdir())
    file = newest / "rank00000.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    said = run.finish()
    assert f"checkpoint {newest.name} is skipped: rank00000.safetensors is damaged" in said
    assert "resumed from step 9" in said
    assert run.weights == whole.weights


def test_batches_of_loader_processes_are_found_again(whole, tmp_path):
    run = Run(tmp_path, "--workers=1")
    run.run("--stop-at=5")
    run.finish()
    assert run.losses() == whole.losses()


def test_two_ranks_stop_at_the_same_step_and_continue(whole_of_two, tmp_path):
    run = Run(tmp_path, ranks=2)
    run.run("--stop-at=10")  # each rank signals itself, which torchrun knows nothing of
    assert run.losses(0).keys() == run.losses(1).keys()
    assert "resumed from step 12" in run.finish()
    assert run.losses(0) == whole_of_two.losses(0)
    assert run.losses(1) == whole_of_two.losses(1)
    assert run.weights == whole_of_two.weights


def test_sharded_tensors_continue_and_are_read_by_another_number_of_ranks(tmp_path):
    whole, run = (Run(tmp_path / name, "--sharded", "--epochs=2", ranks=2) for name in "ab")
    whole.finish()
    run.run("--stop-at=5")
    run.finish()
    assert run.losses(1) == whole.losses(1)
    assert run.weights == whole.weights
    files = {file.name for file in max(run.checkpoints.iterdir()).iterdir()}
    assert files >= {"rank00000.safetensors", "rank00001.safetensors"}
    (run.root / "weights").unlink()
    said = Run(run.root, "--sharded", "--epochs=2", ranks=1).finish()  # nothing is left to train
    assert "saved by 2 ranks, resumed by 1" in said
    assert run.weights == whole.weights

"""Runs that are cut anywhere and resumed equal runs that are not, bit for bit."""

from __future__ import annotations

import pytest

from tests.checkpoints.runs import Run


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The uninterrupted run."""
    run = Run(tmp_path_factory.mktemp("runs") / "whole")
    run.finish()
    return run


def test_a_run_stopped_in_mid_epoch_goes_on_as_if_nothing_had_happened(whole, tmp_path):
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
    assert f"checkpoint {newest.name} is passed over: rank00000.safetensors is damaged" in said
    assert "resumed from step 9" in said
    assert run.weights == whole.weights


def test_batches_of_loader_processes_are_found_again(tmp_path):
    whole, run = Run(tmp_path / "a", "--workers=1"), Run(tmp_path / "b", "--workers=1")
    whole.finish()
    run.run("--stop-at=5")
    run.finish()
    assert run.losses() == whole.losses()


def test_two_ranks_stop_at_the_same_step_and_go_on(tmp_path):
    whole, run = Run(tmp_path / "a", ranks=2), Run(tmp_path / "b", ranks=2)
    whole.finish()
    run.run("--stop-at=10")  # each rank signals itself, which torchrun knows nothing of
    assert run.losses(0).keys() == run.losses(1).keys()
    assert "resumed from step 12" in run.finish()
    assert run.losses(0) == whole.losses(0)
    assert run.losses(1) == whole.losses(1)
    assert run.weights == whole.weights


def test_sharded_tensors_are_read_by_another_number_of_ranks(tmp_path):
    two = Run(tmp_path, "--sharded", ranks=2)
    two.finish()
    files = {file.name for file in max(two.checkpoints.iterdir()).iterdir()}
    assert files >= {"rank00000.safetensors", "rank00001.safetensors"}
    weights = two.weights
    (tmp_path / "weights").unlink()
    said = Run(tmp_path, "--sharded", ranks=1).finish()  # has nothing left to train
    assert "saved by 2 ranks, resumed by 1" in said
    assert Run(tmp_path).weights == weights


def test_a_sharded_run_goes_on_as_if_nothing_had_happened(tmp_path):
    whole = Run(tmp_path / "a", "--sharded", "--epochs=2", ranks=2)
    run = Run(tmp_path / "b", "--sharded", "--epochs=2", ranks=2)
    whole.finish()
    run.run("--stop-at=5")
    run.finish()
    assert run.losses(1) == whole.losses(1)
    assert run.weights == whole.weights

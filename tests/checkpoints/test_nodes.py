"""Two hosts, each with a disk of its own, and one S3 prefix."""

from __future__ import annotations

import shutil

import pytest

from tests.checkpoints.runs import Run, run_ranks

pytestmark = pytest.mark.functional


def sync(roots, bucket):
    """What the platform does around a restart: all hosts' files to one prefix, and back."""
    for root in roots:
        shutil.copytree(root / "checkpoints", bucket, dirs_exist_ok=True)
    for root in roots:
        shutil.rmtree(root / "checkpoints")
        shutil.copytree(bucket, root / "checkpoints")


def files_below(folder):
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


def test_two_hosts_write_names_that_never_clash_and_resume_from_both(whole_of_two, tmp_path):
    roots = [tmp_path / f"host-{i}" for i in range(2)]
    for root in roots:
        root.mkdir()
    run_ranks(roots, "--stop-at=5")
    first, second = (files_below(root / "checkpoints") for root in roots)
    assert first
    assert not first & second
    assert all(name.endswith("rank00001.safetensors") for name in second)
    sync(roots, tmp_path / "bucket")
    assert "resumed from step 7" in run_ranks(roots)[1]
    assert Run(roots[0]).weights == whole_of_two.weights
    assert Run(roots[1]).losses(1) == whole_of_two.losses(1)

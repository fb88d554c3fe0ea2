"""The frameworks' callbacks in two ranks of torchrun: they stop together, and go on alike."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkpoints.frameworks import make_job, names_in

pytestmark = pytest.mark.functional

SCRIPT = Path(__file__).with_name("framework_ranks.py")
REPOSITORY = SCRIPT.parents[2]
DEADLINE_SECONDS = 280  # both libraries are slow to import on a busy machine
FIRST, LAST = 4, 6


@pytest.fixture(params=["lightning", "huggingface"])
def framework(request):
    library = {"lightning": "lightning", "huggingface": "transformers"}[request.param]
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed: docker/frameworks.lock")
    return request.param


def run(framework, root, *, stop_at):
    """What each rank tells: its losses, and whether it was stopped."""
    path = os.pathsep.join([str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])])
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", "2", str(SCRIPT), framework, str(root), str(stop_at)),
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
    )
    assert ended.returncode == 0, ended.stderr
    return [json.loads((root / f"{framework}-{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.timeout(2 * DEADLINE_SECONDS + 40)
def test_ranks_stop_at_the_same_step_and_repeat_it_bit_for_bit(tmp_path, framework):
    job = make_job(tmp_path)
    stopped = run(framework, tmp_path, stop_at=LAST - 1)
    assert [told[1] for told in stopped] == [True, True]
    assert names_in(job)[-1].endswith(f"-step-{LAST}")
    # As if the machine had been lost at an earlier step: what follows is done once more.
    for name in names_in(job):
        if int(name.rpartition("-")[2]) > FIRST:
            Path(job.checkpoint_dir, name, "manifest.json").unlink()
    again = run(framework, tmp_path, stop_at=0)
    for before, after in zip(stopped, again, strict=True):
        assert after[0][: LAST - FIRST] == before[0][FIRST:LAST]
        assert not after[1]

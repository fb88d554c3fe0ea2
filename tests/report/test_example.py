"""The example as a real job: its report names the loader, with its workers and the cores."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import stoker

pytestmark = pytest.mark.functional

PACKAGES = str(Path(stoker.__file__).parents[1])
# What the .pth file does where Stoker is installed.
WAKE = (
    "import sys\n"
    'if "stoker.worker.autoload" not in sys.modules:\n'
    "    import stoker.worker.autoload; stoker.worker.autoload.wake()\n"
)
EXAMPLE = Path(__file__).parents[2] / "examples/by_feature/profiler/train.py"


@pytest.fixture
def two_cores():
    """For the processes that are started meanwhile, whatever this machine has."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:2])
    yield min(2, len(before))
    os.sched_setaffinity(0, before)


def test_eight_workers_on_two_cores_are_named(opt_ml, two_cores):
    (opt_ml.root / "code").mkdir(exist_ok=True)
    script = opt_ml.root / "code/train.py"
    shutil.copy(EXAMPLE, script)
    script.write_text(WAKE + script.read_text())
    opt_ml.hyperparameters(sagemaker_program="train.py", samples="1200", work="150", epochs="1")
    process = opt_ml.start(OMP_NUM_THREADS="1", PYTHONPATH=PACKAGES, STOKER_PROFILE="auto")
    _, errors = process.communicate(timeout=280)
    assert process.returncode == 0, errors
    page = (opt_ml.root / "output/data/stoker/profiler-report.html").read_text()
    assert f"8 loader workers share {two_cores} cores" in page
    assert f"num_workers={two_cores}" in page
    reports = opt_ml.root / "output/data/stoker/rule-output/ProfilerReport/profiler-output"
    assert (reports / "profiler-report.html").is_file()
    assert len(list((reports / "profiler-reports").glob("*.json"))) == 19

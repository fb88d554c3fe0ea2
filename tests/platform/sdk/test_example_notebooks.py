"""The example notebooks run from top to bottom against the platform, as a user runs them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.sdks import IMAGE, REPOSITORY, clean_environ, sdk_python

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]
NOTEBOOKS = REPOSITORY / "examples/notebooks"
HAS_TENSORFLOW = "tensorflow" in IMAGE
# What a user of a notebook installs: `pip install stoker`, `stoker smdebug install`.
PACKAGES = ("stoker", "smdebug", "pyinstrument")


@pytest.fixture(scope="module")
def run(platform, tmp_path_factory):
    """Executes a notebook in a folder of its own and returns what its cells printed."""
    packages = tmp_path_factory.mktemp("packages")
    for name in PACKAGES:
        (packages / name).symlink_to(Path(find_spec(name).origin).parent)
    programs = sdk_python("v2").parent
    environ = {**clean_environ(), **platform.environ}
    environ["PYTHONPATH"] = f"{platform.environ.get('PYTHONPATH', '')}:{packages}".lstrip(":")
    environ["PATH"] = f"{programs}:{os.environ['PATH']}:{Path(sys.executable).parent}"

    def execute(name: str) -> str:
        folder = tmp_path_factory.mktemp(name)
        text = (NOTEBOOKS / f"{name}.ipynb").read_text()
        flavor = "tensorflow" if HAS_TENSORFLOW else "cpu"
        (folder / "notebook.ipynb").write_text(text.replace(f"stoker:{flavor}", IMAGE))
        command = [programs / "jupyter", "nbconvert", "--to", "notebook", "--execute"]
        done = subprocess.run(
            [*command, "notebook.ipynb", "--output", "done.ipynb"],
            cwd=folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=800,
        )
        assert done.returncode == 0, done.stderr[-6000:]
        return _printed(folder / "done.ipynb")

    return execute


def _printed(notebook: Path) -> str:
    cells = json.loads(notebook.read_text())["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    texts = [o.get("text") or o.get("data", {}).get("text/plain", "") for o in outputs]
    return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join("".join(text) for text in texts))


@pytest.mark.skipif(HAS_TENSORFLOW, reason="it is for PyTorch's image")
def test_tensorboard_in_a_training_job(run):
    printed = run("tensorboard")
    assert "['accuracy', 'loss'] ['first layer']" in printed
    assert "epoch 39 loss=" in printed
    assert re.search(r"loss +0\.\d+", printed), "the metric as CloudWatch has it"


@pytest.mark.skipif(HAS_TENSORFLOW, reason="it is for PyTorch's image")
def test_debugger_tensor_view_and_experiments(run):
    printed = run("debugger_and_experiments")
    assert re.search("VanishingGradient (NoIssuesFound|IssuesFound)", printed)
    assert "tensors; losses at 12 steps" in printed
    assert "tensor_view.html: True" in printed
    assert "stripes-lenet" in printed


@pytest.mark.skipif(HAS_TENSORFLOW, reason="it is for PyTorch's image")
def test_the_book_chapter(run):
    printed = run("book_chapter")
    assert "'step-000004'" in printed
    assert "Stopped IssuesFound" in printed
    assert "'system'" in printed
    assert "of that was computing" in printed
    assert "report.html" in printed
    assert "FinalObjectiveValue" in printed
    assert "Completed 1 interruption" in printed


@pytest.mark.skipif(not HAS_TENSORFLOW, reason="make test-tensorflow runs it")
def test_script_mode_with_tensorflow_and_with_keras_on_torch(run):
    printed = run("tensorflow_script_mode")
    assert "trained on tensorflow" in printed
    assert "100 predictions" in printed
    assert "events.out.tfevent" in printed
    assert "trained on torch" in printed
    assert "of the predictions are the same" in printed

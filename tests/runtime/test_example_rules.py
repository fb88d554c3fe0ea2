"""The example of rules as a real job: torch, the hook, the evaluator, checkpoints; no line of ours
in the script about any of them but the checkpoints."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from subprocess import CompletedProcess

import pytest

import stoker
from stoker.bus.rule_status import read_rule_statuses
from stoker.contract.paths import Paths

PACKAGES = str(Path(stoker.__file__).parents[1])
# What the .pth file does where Stoker is installed.
WAKE = (
    "import sys\n"
    'if "stoker.worker.autoload" not in sys.modules:\n'
    "    import stoker.worker.autoload; stoker.worker.autoload.wake()\n"
)
EXAMPLE = Path(__file__).parents[2] / "examples/by_feature/rules"


@pytest.fixture
def run(opt_ml):
    """Runs it with one hyperparameter; returns how it went and the statuses of its rules."""

    def run(**hyperparameters):
        shutil.copytree(EXAMPLE, opt_ml.root / "code", dirs_exist_ok=True)
        script = opt_ml.root / "code/train.py"
        script.write_text(WAKE + script.read_text())
        opt_ml.hyperparameters(sagemaker_program="train.py", **hyperparameters)
        process = opt_ml.start(OMP_NUM_THREADS="1", PYTHONPATH=PACKAGES)
        out, err = process.communicate(timeout=280)
        done = CompletedProcess(process.args, process.returncode, out, err)
        rules = read_rule_statuses(Paths(root=str(opt_ml.root)))
        return done, {rule.name: rule for rule in rules}

    return run


def test_a_run_that_diverges_is_stopped_with_its_model_and_checkpoint(run, opt_ml):
    done, rules = run(lr="3", steps="100000")
    assert done.returncode == 0, done.stderr
    assert rules["ExplodingTensor"].status == "IssuesFound"
    step = rules["ExplodingTensor"].step
    assert f"stopped by rule ExplodingTensor at step {step}" in done.stderr
    assert " saved" in done.stderr.splitlines()[-1]
    assert "stopped after step" in done.stdout
    assert (opt_ml.root / "model/model.pt").exists()
    assert list((opt_ml.root / "checkpoints").glob("*/manifest.json"))
    findings = (opt_ml.root / "output/data/stoker/findings.jsonl").read_text().splitlines()
    assert json.loads(findings[0])["step"] <= step


def test_its_healthy_twin_ends_by_itself(run, opt_ml):
    done, rules = run(lr="0.1")
    assert done.returncode == 0, done.stderr
    assert {name: rule.status for name, rule in rules.items()} == {
        "ExplodingTensor": "NoIssuesFound",
        "LossNotDecreasing": "NoIssuesFound",
        "LargeGradient": "NoIssuesFound",
    }
    assert "\ndone\n" in done.stdout
    assert rules["LargeGradient"].evaluated_steps == 30

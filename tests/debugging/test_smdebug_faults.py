"""Each fault of smdebug that we fix: the wheel of level 1 shows it, that of level 2 does not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from stoker.platform.model.root import open_root
from tests.debugging.buckets import serve_buckets
from tests.smdebug_wheels import make_wheels

pytestmark = pytest.mark.functional

PROGRAM = Path(__file__).with_name("smdebug_faults.py")

# What smdebug does without our edits (the error's text contains it, or the value), and with them.
FAULTS = {
    "bfloat16": ("ScalarType BFloat16", ["float32", [1.5, -2.0]]),
    "float8": ("ScalarType Float8", ["float32", [1.5]]),
    # True: smdebug has switched itself off.
    "bfloat16_with_the_default_configuration": (True, False),
    "sparse_gradients": ("Sparse layout", [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]),
    "reductions_of_sparse_integer_and_float8_tensors": ("SparseCPU", [2.0, 2.0, 0.5, 1.5]),
    "integers": ("KeyError", ["int8", "int16", "uint16", "uint32", "uint64", "complex64"]),
    "shape_beside_the_value": ("TensorUnavailableForStep", [[2, 3], 6.0]),
    "string_booleans": ("must be a boolean", [True, False]),
    "dicts_dataclasses_and_keywords": (
        {"MSELoss_output_0": 100.0, "as_dataclass_input_0": 2.0},
        {
            "MSELoss_input_0": 10.0,
            "MSELoss_input_1": 0.0,
            "MSELoss_output_0": 100.0,
            "Net_input_0": 1.0,
            "Net_output_0": 10.0,
            "as_dataclass_input_0": 2.0,
            "as_dataclass_output_0": 10.0,
            "as_dict_input_0": 1.0,
            "as_dict_output_0": 2.0,
            "as_dict_output_1": 3.0,
        },
    ),
    "spot_state": ([True, False, True, False], [True, True, True, False]),
    "scalars_stay_in_their_mode": (
        {"TRAIN": [], "EVAL": ["of_TRAIN", "of_EVAL"], "first step": ["EVAL", "TRAIN"]},
        {"TRAIN": ["of_TRAIN"], "EVAL": ["of_EVAL"], "first step": ["TRAIN"]},
    ),
    "save_tensor_into_new_collections": ("save_raw_tensor", [[0, 1, 2], ["mine"], ["mine"]]),
    "the_documented_rule": ("'action_str'", True),
    "case_in_profilerconfig": (
        ["/mixed/case", False, "cprofile", 3],
        ["/Mixed/Case", True, "cprofile", 3],
    ),
    "broken_field_in_profilerconfig": ("SyntaxError", True),
    "booleans_in_profilerconfig": ("'true' is not defined", 1),
    "copies_of_a_watched_model": ("no attribute 'writer'", [1, [0]]),
    "names_of_unfinished_files": ([".tmp", [0]], [".sagemaker-ignore", [0]]),
    "unfinished_files_in_s3": ("IndexReaderException", [[0, 1], ["worker_0"]]),
    "compiled_models": ("cumsum_out_cpu", [[0, 1], [0, 1], True]),
}


class Run(NamedTuple):
    results: dict
    errors: str
    s3: Path
    """The bucket, as a folder."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[int, Run]:
    wheels = make_wheels(tmp_path_factory.mktemp("wheels"))
    root = open_root(tmp_path_factory.mktemp("platform") / "root")
    quiet = {**os.environ, "OMP_NUM_THREADS": "1", "SMDEBUG_LOG_LEVEL": "error"}
    with serve_buckets(root) as s3:
        return {
            level: _run(
                wheel, tmp_path_factory.mktemp(f"level{level}"), root.s3_dir, {**quiet, **s3}
            )
            for level, wheel in wheels.items()
        }


def _run(wheel: Path, folder: Path, buckets: Path, environ: dict[str, str]) -> Run:
    arguments = [wheel, folder, folder / "results.json", f"s3://{folder.name}/tensors"]
    done = subprocess.run(
        [sys.executable, PROGRAM, *arguments],
        env=environ,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    results = json.loads((folder / "results.json").read_text())
    return Run(results, done.stderr, buckets / folder.name / "tensors")


def test_every_scenario_is_evaluated(runs):
    judged = {*FAULTS, "out_dir_of_a_finished_job"}
    assert runs[1].results.keys() == runs[2].results.keys() == judged


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_smdebug_is_fixed(name, runs):
    fault, fixed = FAULTS[name]
    before = runs[1].results[name]
    if isinstance(fault, str):
        assert fault in before
    else:
        assert before == fault
    assert runs[2].results[name] == fixed


def test_the_folder_of_a_finished_job_is_refused_with_the_reason(runs):
    assert "prepared_collections" in runs[1].results["out_dir_of_a_finished_job"]
    assert "holds the tensors of a finished job" in runs[2].results["out_dir_of_a_finished_job"]


def test_the_last_step_reaches_s3_without_a_close(runs):
    steps = {level: sorted(f.name[:12] for f in _index_files(run)) for level, run in runs.items()}
    assert steps[1] == ["000000000000", "000000000001"]
    assert steps[2] == ["000000000000", "000000000001", "000000000002"]
    ends = {level: (run.s3 / "training_job_end.ts").exists() for level, run in runs.items()}
    assert ends == {1: False, 2: True}
    assert "cannot schedule new futures" in runs[1].errors
    assert "Exception ignored" not in runs[2].errors


def _index_files(run: Run) -> list[Path]:
    return list(run.s3.glob("index/*/*.json"))

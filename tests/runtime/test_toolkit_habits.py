"""What scripts and images that were made for the stock toolkit find here as well."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.functional


def test_a_success_leaves_the_toolkits_empty_file(opt_ml):
    opt_ml.script("print('trained')")
    assert opt_ml.run().returncode == 0
    assert (opt_ml.root / "output/success").read_bytes() == b""


@pytest.mark.parametrize("last_line", ["raise SystemExit(3)", "raise ValueError('no')"])
def test_a_failure_leaves_none_not_even_of_the_attempt_before(opt_ml, last_line):
    (opt_ml.root / "output/success").touch()
    opt_ml.script(last_line)
    assert opt_ml.run().returncode != 0
    assert not (opt_ml.root / "output/success").exists()


def test_neither_a_dry_run_nor_a_stop_is_a_success(opt_ml):
    opt_ml.script("""
        import os, time
        open(os.environ["SM_MODEL_DIR"] + "/ready", "w").close()
        time.sleep(600)
    """)
    assert opt_ml.run("--dry-run").returncode == 0
    opt_ml.run_until("model/ready")
    assert not (opt_ml.root / "output/success").exists()


def test_a_success_file_that_cannot_be_written_is_still_a_success(opt_ml):
    opt_ml.script("import os; os.mkfifo(os.environ['SM_OUTPUT_DIR'] + '/success')")
    result = opt_ml.run()
    assert result.returncode == 0
    assert "output/success could not be written" in result.stderr


def test_the_folder_of_a_live_upload_is_there_and_the_missing_upload_is_said(opt_ml):
    opt_ml.script(
        "import os; open(os.environ['SM_OUTPUT_INTERMEDIATE_DIR'] + '/a', 'w').close()",
        sagemaker_s3_output='"s3://bucket/prefix"',
    )
    result = opt_ml.run()
    assert result.returncode == 0, result.stderr
    assert "warning: sagemaker_s3_output is set, but" in result.stderr


def test_a_folder_that_the_platform_uploads_is_not_warned_about(opt_ml):
    (opt_ml.root / "output/intermediate").mkdir()
    opt_ml.script("pass", sagemaker_s3_output='"s3://bucket/prefix"')
    assert "sagemaker_s3_output" not in opt_ml.run().stderr


def test_a_training_module_that_fails_keeps_the_toolkits_reason(opt_ml):
    opt_ml.script("print('never')")
    opt_ml.config("inputdataconfig", {})
    opt_ml.config("resourceconfig", {"current_host": "algo-1", "hosts": ["algo-1"]})
    (opt_ml.root / "code/mine.py").write_text(
        "def main():\n    raise ValueError('the framework broke')\n"
    )
    result = opt_ml.run(
        SAGEMAKER_TRAINING_MODULE="mine:main", PYTHONPATH=str(opt_ml.root / "code")
    )
    assert result.returncode == 1, result.stderr
    assert opt_ml.failure.startswith("Framework Error:")
    assert "ValueError: the framework broke" in opt_ml.failure


@pytest.mark.parametrize(
    ("file", "command"),
    [("setup.py", "-m train --epochs 3"), ("pyproject.toml", "train.py --epochs 3")],
)
def test_a_packaged_script_is_started_as_the_toolkit_starts_it(opt_ml, file, command):
    # By -m, sys.argv[0] is the absolute path of the script; else it is its name.
    opt_ml.script("pass", epochs="3")
    (opt_ml.root / "code" / file).touch()
    shown = opt_ml.run("--dry-run").stderr
    assert f"{command}   (in {opt_ml.root}/code)" in shown

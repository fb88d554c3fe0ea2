"""The five ways code arrives, and which of them wins."""

import io
import os
import tarfile
import textwrap

import pytest

from tests.s3_server import running_s3

KEYS = {"AWS_ACCESS_KEY_ID": "local-key", "AWS_SECRET_ACCESS_KEY": "local-secret"}


def _archive(file, **sources):
    with tarfile.open(file, "w:gz") as tar:
        for name, text in sources.items():
            member = tarfile.TarInfo(f"{name}.py")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    """A real S3 server over a plain folder."""
    folder = tmp_path_factory.mktemp("s3")
    with running_s3(folder, "local-key,local-secret") as address:
        (folder / "bucket").mkdir()
        yield folder / "bucket", address


@pytest.fixture
def _nothing_is_left_behind():
    """The S3 server of this module outlives each of its tests."""


def test_b_an_archive_on_s3_is_fetched_and_wins_over_mounted_code(opt_ml, s3):
    bucket, endpoint = s3
    opt_ml.script("print('mounted')")
    _archive(bucket / "sourcedir.tar.gz", train="import helper", helper="print('from S3')")
    opt_ml.hyperparameters(
        sagemaker_program='"train.py"',
        sagemaker_submit_directory='"s3://bucket/sourcedir.tar.gz"',
    )
    result = opt_ml.run(AWS_ENDPOINT_URL_S3=endpoint, AWS_DEFAULT_REGION="us-east-1", **KEYS)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "from S3\n"
    assert "code: s3://bucket/sourcedir.tar.gz (submit directory); not used: " in result.stderr


def test_b_a_prefix_on_s3_does_not_pull_in_its_siblings(opt_ml, s3):
    bucket, endpoint = s3
    for name in ("src", "src-old"):
        (bucket / name).mkdir(exist_ok=True)
        (bucket / name / f"{name.replace('-', '_')}.py").write_text(f"print('{name}')")
    opt_ml.hyperparameters(
        sagemaker_program="src.py", sagemaker_submit_directory="s3://bucket/src"
    )
    result = opt_ml.run(AWS_ENDPOINT_URL_S3=endpoint, AWS_DEFAULT_REGION="us-east-1", **KEYS)
    assert result.stdout == "src\n", result.stderr
    assert os.listdir(opt_ml.root / "code") == ["src.py"]


def test_b_an_object_that_is_not_there_is_named(opt_ml, s3):
    _, endpoint = s3
    opt_ml.hyperparameters(
        sagemaker_program="train.py", sagemaker_submit_directory="s3://bucket/none.tar.gz"
    )
    result = opt_ml.run(AWS_ENDPOINT_URL_S3=endpoint, AWS_DEFAULT_REGION="us-east-1", **KEYS)
    assert result.returncode == 69
    assert "s3://bucket/none.tar.gz does not exist" in opt_ml.failure
    assert "Traceback" not in result.stderr


def test_b_a_dead_s3_endpoint_is_a_failure_with_a_reason(opt_ml):
    opt_ml.hyperparameters(
        sagemaker_program="train.py", sagemaker_submit_directory="s3://bucket/none.tar.gz"
    )
    result = opt_ml.run(
        AWS_ENDPOINT_URL_S3="http://127.0.0.1:9", AWS_DEFAULT_REGION="us-east-1", **KEYS
    )
    assert result.returncode == 69
    assert "could not be downloaded" in opt_ml.failure
    assert "fix: " in opt_ml.failure


def test_c_the_code_channel_as_an_archive(opt_ml):
    channel = opt_ml.root / "input/data/code"
    channel.mkdir()
    _archive(channel / "sourcedir.tar.gz", train="print('from the channel archive')")
    opt_ml.config("inputdataconfig", {"code": {"TrainingInputMode": "File"}})
    opt_ml.hyperparameters(
        sagemaker_program="train.py",
        sagemaker_submit_directory=str(channel / "sourcedir.tar.gz"),
    )
    assert opt_ml.run().stdout == "from the channel archive\n"


def test_e_the_code_channel_as_a_tree(opt_ml):
    channel = opt_ml.root / "input/data/code"
    channel.mkdir()
    (channel / "train.py").write_text("print('from the channel tree')")
    opt_ml.config("inputdataconfig", {"code": {"TrainingInputMode": "File"}})
    result = opt_ml.run(SAGEMAKER_PROGRAM="train.py")
    assert result.stdout == "from the channel tree\n"


def test_d_a_mounted_folder(opt_ml):
    opt_ml.script("import os; print('mounted in', os.path.basename(os.getcwd()))")
    assert opt_ml.run().stdout == "mounted in code\n"


def test_a_code_baked_into_the_image(opt_ml, tmp_path):
    program = tmp_path / "program"
    program.mkdir()
    (program / "train.py").write_text("import sibling")
    (program / "sibling.py").write_text("print('baked')")
    result = opt_ml.run(SAGEMAKER_PROGRAM=str(program / "train.py"))
    assert result.stdout == "baked\n", result.stderr


@pytest.mark.parametrize("name", ["start.py", "start.sh", "start"])
def test_a_program_of_the_image_runs_next_to_mounted_code(opt_ml, tmp_path, name):
    opt_ml.script("print('mounted')", name="other.py")
    opt_ml.hyperparameters()
    program = tmp_path / "image" / name
    program.parent.mkdir()
    program.write_text("print('baked')" if name.endswith(".py") else "#!/bin/sh\necho baked\n")
    program.chmod(0o755)
    result = opt_ml.run(SAGEMAKER_PROGRAM=str(program))
    assert result.stdout == "baked\n", result.stderr
    assert "not used: " in result.stderr


def test_code_that_was_submitted_wins_over_the_images_own_program(opt_ml, tmp_path):
    (tmp_path / "image").mkdir()
    (tmp_path / "image/start.py").write_text("print('baked')")
    (tmp_path / "src").mkdir()
    (tmp_path / "src/train.py").write_text("print('submitted')")
    opt_ml.hyperparameters(
        sagemaker_program="train.py", sagemaker_submit_directory=str(tmp_path / "src")
    )
    result = opt_ml.run(SAGEMAKER_PROGRAM=str(tmp_path / "image/start.py"))
    assert result.stdout == "submitted\n", result.stderr
    assert f"not used: {tmp_path}/image (image)" in result.stderr


def test_the_submit_directory_variable_is_honoured(opt_ml, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/train.py").write_text("print('elsewhere')")
    opt_ml.script("print('mounted')")
    result = opt_ml.run(SAGEMAKER_SUBMIT_DIRECTORY=str(tmp_path / "elsewhere"))
    assert result.stdout == "elsewhere\n"


def test_a_submitted_single_file_runs(opt_ml, tmp_path):
    (tmp_path / "one.py").write_text("print('one file')")
    opt_ml.hyperparameters(
        sagemaker_program="one.py", sagemaker_submit_directory=str(tmp_path / "one.py")
    )
    assert opt_ml.run().stdout == "one file\n"


def test_a_module_inside_a_project_is_planned_with_its_install(opt_ml):
    code = opt_ml.root / "code"
    opt_ml.script("from .words import WORD; print(WORD)", name="pkg/main.py")
    (code / "pkg/__init__.py").touch()
    (code / "pkg/words.py").write_text("WORD = 'relative'")
    (code / "setup.py").write_text(
        "from setuptools import setup; setup(name='pkg-under-test', packages=['pkg'])"
    )
    result = opt_ml.run("--dry-run")
    assert "-m pkg.main" in result.stderr
    assert "pip install" in result.stderr


def test_a_package_is_run_by_its_name(opt_ml):
    opt_ml.script("print('as a package')", name="trainer/__main__.py")
    opt_ml.hyperparameters(sagemaker_program="trainer")
    assert opt_ml.run().stdout == "as a package\n"


def test_a_script_in_a_subfolder_finds_modules_of_the_source_directory(opt_ml):
    opt_ml.script("import shared; print(shared.NAME)", name="jobs/train.py")
    (opt_ml.root / "code/shared.py").write_text("NAME = 'shared'")
    assert opt_ml.run().stdout == "shared\n"


def test_a_shell_script_runs_with_its_arguments(opt_ml):
    opt_ml.script('echo "$1 $2 $SM_HP_LR"\n', name="run.sh", lr="0.5")
    assert opt_ml.run().stdout == "--lr 0.5 0.5\n"


def test_an_executable_with_a_shebang_runs_itself(opt_ml):
    file = opt_ml.script("x", name="tool")
    file.write_text(textwrap.dedent('#!/usr/bin/env -S awk -f\nBEGIN { print "awk" }\n'))
    file.chmod(0o755)
    assert opt_ml.run().stdout == "awk\n"


def test_a_dry_run_prints_the_plan_and_starts_nothing(opt_ml):
    opt_ml.script("print('never')", api_key='"abcdefgh"', lr="0.1")
    result = opt_ml.run("--dry-run")
    assert result.returncode == 0
    assert result.stdout == ""
    assert "train.py --api_key ****** --lr 0.1" in result.stderr

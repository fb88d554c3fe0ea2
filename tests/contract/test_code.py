"""The five ways code arrives, and which wins."""

from __future__ import annotations

import pytest

from stoker.contract.channels import read_channels
from stoker.contract.code import find_code
from stoker.contract.hyperparameters import read_hyperparameters
from stoker.contract.paths import Paths
from stoker.errors import CodeMissing
from stoker.runtime.program import find_program


@pytest.fixture
def find(opt_ml, tmp_path, monkeypatch):
    """Finds the code of a job whose working directory is an empty folder of the image."""
    (tmp_path / "workdir").mkdir()
    monkeypatch.chdir(tmp_path / "workdir")

    def run(program="train.py", submit=None, **environ):
        hyperparameters = {"sagemaker_program": program} if program is not None else {}
        if submit is not None:
            hyperparameters["sagemaker_submit_directory"] = str(submit)
        opt_ml.config("hyperparameters", hyperparameters)
        paths = Paths(root=str(opt_ml.root))
        return find_code(
            paths,
            hyperparameters=read_hyperparameters(paths),
            channels=read_channels(paths),
            environ=environ,
        )

    return run


def place(folder, name="train.py"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).touch()
    return folder


def code_channel(opt_ml, *names):
    opt_ml.config("inputdataconfig", {"code": {}, "train": {}})
    for name in names:
        place(opt_ml.root / "input/data/code", name)


def test_the_order_is_submit_directory_channel_mount_image(opt_ml, find, tmp_path):
    place(tmp_path / "workdir")
    places = {"image": str(tmp_path / "workdir")}
    assert find().source.origin == "image"
    place(opt_ml.root / "code")
    assert find().source.origin == "/opt/ml/code"
    assert [s.origin for s in find().ignored] == ["image"]
    code_channel(opt_ml, "train.py")
    assert find().source.origin == "code channel"
    code = find(submit=place(tmp_path / "submitted"))
    assert code.source.origin == "submit directory"
    assert [s.origin for s in code.ignored] == ["code channel", "/opt/ml/code", "image"]
    assert code.ignored[-1].location == places["image"]


@pytest.mark.parametrize(
    ("submit", "kind"), [("s3://b/k/sourcedir.tar.gz", "s3"), ("s3://b/prefix/", "s3")]
)
def test_s3_is_fetched(find, submit, kind):
    code = find(submit=submit)
    assert (code.source.kind, code.source.location) == (kind, submit)


@pytest.mark.parametrize(
    ("name", "kind"), [("sourcedir.tar.gz", "archive"), ("a.tgz", "archive"), ("train.py", "file")]
)
def test_a_submit_directory_may_be_an_archive_or_a_file(find, tmp_path, name, kind):
    assert find(submit=place(tmp_path / "x", name) / name).source.kind == kind


def test_a_file_address_is_a_local_folder(find, tmp_path):
    assert find(submit=f"file://{place(tmp_path / 'x')}").source.location == str(tmp_path / "x")


def test_a_folder_of_the_host_gives_way_to_the_mount_of_local_mode(opt_ml, find):
    place(opt_ml.root / "code")
    assert find(submit="/home/somebody/src").source.origin == "/opt/ml/code"


def test_a_submit_directory_that_is_not_there_is_told(find):
    with pytest.raises(CodeMissing, match="/home/somebody/src does not exist") as caught:
        find(submit="/home/somebody/src")
    assert "mount" in caught.value.fix


def test_the_hyperparameter_wins_over_the_variable_for_the_place(find, tmp_path):
    one, other = place(tmp_path / "one"), place(tmp_path / "other")
    assert find(SAGEMAKER_SUBMIT_DIRECTORY=str(one)).source.location == str(one)
    code = find(submit=other, SAGEMAKER_SUBMIT_DIRECTORY=str(one))
    assert code.source.location == str(other)


def test_the_variable_wins_over_the_hyperparameter_for_the_program(opt_ml, find):
    place(opt_ml.root / "code")
    assert find(program="a.py").entry_point == "a.py"
    assert find(program="a.py", SAGEMAKER_PROGRAM="b.py").entry_point == "b.py"


def test_one_archive_alone_in_the_channel_is_unpacked(opt_ml, find):
    code_channel(opt_ml, "sourcedir.tar.gz")
    assert find().source.kind == "archive"
    code_channel(opt_ml, "train.py")
    assert find().source.kind == "folder"


def test_an_empty_channel_is_not_a_source(opt_ml, find):
    code_channel(opt_ml)
    (opt_ml.root / "input/data/code").mkdir()
    place(opt_ml.root / "code")
    assert find().source.origin == "/opt/ml/code"


def test_a_program_of_the_image_runs_where_it_is(find, tmp_path):
    place(tmp_path / "program")
    code = find(program=None, SAGEMAKER_PROGRAM=str(tmp_path / "program/train.py"))
    assert code.source.location == str(tmp_path / "program")
    assert code.entry_point == "train.py"


def test_no_entry_point_is_told(find):
    with pytest.raises(CodeMissing, match="no entry point") as caught:
        find(program=None)
    assert "entry_point=" in caught.value.fix


def test_no_code_anywhere_is_told(find):
    with pytest.raises(CodeMissing, match="no code is there"):
        find()


@pytest.mark.parametrize("name", ["../x.py", "a/../../x.py", "-c", "a\nb", "\t", "a\0b"])
def test_an_entry_point_that_is_not_a_file_name_is_refused(find, name):
    with pytest.raises(CodeMissing, match="not a valid entry point"):
        find(program=None, SAGEMAKER_PROGRAM=name)


def test_a_submit_directory_too_long_for_any_path_is_told(find):
    with pytest.raises(CodeMissing) as caught:
        find(submit="x" * 2500)
    assert caught.value.fix


def test_a_program_name_too_long_for_any_file_is_told(opt_ml, find):
    folder = place(opt_ml.root / "code")
    with pytest.raises(CodeMissing) as caught:
        find_program(str(folder), find(program="x" * 300).entry_point)
    assert caught.value.fix

"""What the entry point is."""

from __future__ import annotations

import pytest

from stoker.errors import CodeMissing
from stoker.runtime.program import find_program


def make(folder, *names, text=""):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def kind(folder, entry_point):
    program = find_program(str(folder), entry_point)
    return program.kind, program.target


def test_a_python_file_is_a_script(tmp_path):
    make(tmp_path, "train.py", "sub/train.py")
    assert kind(tmp_path, "train.py") == ("script", "train.py")
    assert kind(tmp_path, "sub/train.py") == ("script", "sub/train.py")


def test_an_absolute_name_inside_the_folder_is_made_relative(tmp_path):
    make(tmp_path, "train.py")
    program = find_program(str(tmp_path), f"{tmp_path}/train.py")
    assert (program.target, program.entry_point) == ("train.py", "train.py")


def test_a_module_is_found_by_its_dotted_name(tmp_path):
    make(tmp_path, "pkg/__main__.py", "pkg/train.py")
    assert kind(tmp_path, "pkg") == ("module", "pkg")
    assert kind(tmp_path, "pkg.train") == ("module", "pkg.train")


def test_a_file_inside_an_installed_package_is_a_module(tmp_path):
    make(tmp_path, "pkg/__init__.py", "pkg/train.py")
    assert kind(tmp_path, "pkg/train.py") == ("script", "pkg/train.py")
    make(tmp_path, "setup.py")
    assert kind(tmp_path, "pkg/train.py") == ("module", "pkg.train")
    assert kind(tmp_path, "setup.py") == ("module", "setup")  # as with the stock toolkit


@pytest.mark.parametrize("text", ["[build-system]\n", "[project]\nname = 'x'\n"])
def test_a_pyproject_that_builds_makes_a_package(tmp_path, text):
    make(tmp_path, "train.py")
    make(tmp_path, "pyproject.toml", text=text)
    assert find_program(str(tmp_path), "train.py").is_package
    assert kind(tmp_path, "mypkg.train") == ("module", "mypkg.train")  # a src layout


def test_a_pyproject_that_only_configures_tools_does_not(tmp_path):
    make(tmp_path, "train.py")
    make(tmp_path, "pyproject.toml", text="[tool.ruff]\n")
    assert not find_program(str(tmp_path), "train.py").is_package


def test_a_shell_script_needs_no_executable_bit(tmp_path):
    make(tmp_path, "run.sh", text="echo hello\n")
    assert kind(tmp_path, "run.sh") == ("shell", "run.sh")
    make(tmp_path, "tool", text="#!/usr/bin/env perl\n")
    assert kind(tmp_path, "tool") == ("shell", "tool")
    (tmp_path / "tool").chmod(0o755)
    assert kind(tmp_path, "tool") == ("executable", "tool")


def test_an_executable_without_a_first_line_is_a_shell_script(tmp_path):
    make(tmp_path, "run.sh", text="echo hello\n")
    (tmp_path / "run.sh").chmod(0o755)
    assert kind(tmp_path, "run.sh") == ("shell", "run.sh")


def test_requirements_are_found_for_every_kind(tmp_path):
    make(tmp_path, "train.py", "run.sh", "requirements.txt")
    for name in ("train.py", "run.sh"):
        requirements = find_program(str(tmp_path), name).requirements
        assert str(requirements) == f"{tmp_path}/requirements.txt"


def test_a_missing_file_is_told_with_what_is_there_and_the_near_miss(tmp_path):
    make(tmp_path, "train.py", "lib/model.py")
    with pytest.raises(CodeMissing, match=r"'trian.py' is not in .*lib/model.py, train.py") as c:
        find_program(str(tmp_path), "trian.py")
    assert c.value.fix == "did you mean 'train.py'?"


def test_an_empty_folder_holds_nothing(tmp_path):
    with pytest.raises(CodeMissing, match="which holds: nothing"):
        find_program(str(tmp_path), "train.py")


@pytest.mark.parametrize("name", [".", "/", "...", "//", "./", "x" * 300])
def test_a_name_that_is_not_a_file_is_told(tmp_path, name):
    make(tmp_path, "train.py")
    with pytest.raises(CodeMissing):
        find_program(str(tmp_path), name)


def test_a_dotted_name_is_looked_for_in_the_folder_only(tmp_path):
    outside = make(tmp_path / "outside", "module.py")
    folder = make(tmp_path / "code", "train.py")
    name = "." + str(outside / "module").lstrip("/").replace("/", ".")
    with pytest.raises(CodeMissing):
        find_program(str(folder), name)


@pytest.mark.parametrize(
    ("pyproject", "alone"),
    [
        (None, True),
        ("[project]\nname = 'x'\n", True),
        ("[build-system]\nrequires = ['setuptools>=61', 'wheel']\n", True),
        ("[build-system]\nrequires = ['hatchling']\n", False),
        ("[build-system\n", False),
    ],
)
def test_a_project_is_built_with_the_images_setuptools_where_it_asks_for_no_more(
    tmp_path, pyproject, alone
):
    (tmp_path / "train.py").touch()
    (tmp_path / "setup.py").touch()
    if pyproject is not None:
        (tmp_path / "pyproject.toml").write_text(pyproject)
    assert find_program(str(tmp_path), "train.py").needs_setuptools_only is alone

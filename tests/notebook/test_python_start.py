"""The sitecustomize of `stoker local env` in the user's Python."""

from __future__ import annotations

import subprocess
import sys

import pytest

from stoker.notebook.python_start import sitecustomize

SDK = """
NOTEBOOK_METADATA_FILE = "/opt/ml/metadata/resource-metadata.json"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sagemaker").mkdir()
    (tmp_path / "sagemaker/__init__.py").touch()
    (tmp_path / "sagemaker/session.py").write_text(SDK)
    return tmp_path


def python(program, *path, **environ):
    environ["PYTHONPATH"] = ":".join(map(str, path))
    command = [sys.executable, "-c", program]
    return subprocess.check_output(command, env=environ, text=True, timeout=60).strip()


def test_the_sdk_is_shown_the_file_and_the_users_own_sitecustomize_still_runs(folder):
    (folder / "sitecustomize.py").write_text("import builtins; builtins.mine = 'ran'")
    program = """
import sagemaker.session, sitecustomize
print(sagemaker.session.NOTEBOOK_METADATA_FILE, mine, sitecustomize.__file__)
"""
    ours = sitecustomize.__file__.rsplit("/", 1)[0]
    shown = python(program, ours, folder, STOKER_NOTEBOOK_METADATA="/root/file.json")
    assert shown == f"/root/file.json ran {folder}/sitecustomize.py"


def test_without_the_variable_nothing_changes(folder):
    program = "import sagemaker.session as s; print(s.NOTEBOOK_METADATA_FILE)"
    ours = sitecustomize.__file__.rsplit("/", 1)[0]
    assert python(program, ours, folder) == "/opt/ml/metadata/resource-metadata.json"

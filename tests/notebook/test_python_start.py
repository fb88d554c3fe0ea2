"""The sitecustomize of `stoker local env` in the user's Python."""

from __future__ import annotations

import subprocess
import sys

import pytest

from stoker.notebook.python_start import sitecustomize

SDK = """
import time
NOTEBOOK_METADATA_FILE = "/opt/ml/metadata/resource-metadata.json"
def sts_regional_endpoint(region):
    return f"https://sts.{region}.example"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sagemaker").mkdir()
    (tmp_path / "sagemaker/__init__.py").touch()
    (tmp_path / "sagemaker/session.py").write_text(SDK)
    return tmp_path


@pytest.mark.parametrize(
    "module", ["sagemaker.core.helper.session_helper", "sagemaker_core.helper.session_helper"]
)
def test_each_sdk_that_asks_for_a_role_is_shown_the_file(tmp_path, module):
    file = tmp_path.joinpath(*module.split(".")).with_suffix(".py")
    file.parent.mkdir(parents=True)
    file.write_text(SDK)
    program = f"""
import {module} as s
print(s.NOTEBOOK_METADATA_FILE, s.sts_regional_endpoint("eu-west-1"))
"""
    ours = sitecustomize.__file__.rsplit("/", 1)[0]
    environ = {"STOKER_NOTEBOOK_METADATA": "/root/file.json", "AWS_ENDPOINT_URL": "http://a"}
    assert python(program, ours, tmp_path, **environ) == "/root/file.json http://a"


def python(program, *path, **environ):
    environ["PYTHONPATH"] = ":".join(map(str, path))
    command = [sys.executable, "-c", program]
    return subprocess.check_output(command, env=environ, text=True, timeout=240).strip()


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


@pytest.mark.parametrize(
    ("endpoint", "asked"),
    [
        ("http://127.0.0.1:1", "http://127.0.0.1:1"),
        ("https://aws.example", "https://sts.eu-west-1.example"),
        ("", "https://sts.eu-west-1.example"),
    ],
)
def test_the_caller_is_asked_for_at_this_machine_only_while_the_endpoint_is(
    folder, endpoint, asked
):
    program = "import sagemaker.session as s; print(s.sts_regional_endpoint('eu-west-1'))"
    ours = sitecustomize.__file__.rsplit("/", 1)[0]
    environ = {"STOKER_NOTEBOOK_METADATA": "/root/file.json", "AWS_ENDPOINT_URL": endpoint}
    assert python(program, ours, folder, **environ) == asked


@pytest.mark.parametrize(
    ("endpoint", "sent"), [("http://127.0.0.1:1", "[]"), ("https://aws.example", "[(1, 'job')]")]
)
def test_what_jobs_of_this_machine_did_is_not_reported_to_aws(tmp_path, endpoint, sent):
    (tmp_path / "sagemaker/telemetry").mkdir(parents=True)
    (tmp_path / "sagemaker/telemetry/telemetry_logging.py").write_text("""
sent = []
def _send_telemetry_request(*given):
    sent.append(given)
def train():
    _send_telemetry_request(1, "job")
""")
    program = "import sagemaker.telemetry.telemetry_logging as t; t.train(); print(t.sent)"
    ours = sitecustomize.__file__.rsplit("/", 1)[0]
    environ = {"STOKER_NOTEBOOK_METADATA": "/root/file.json", "AWS_ENDPOINT_URL": endpoint}
    assert python(program, ours, tmp_path, **environ) == sent


WAIT = """
import os, time as real
import sagemaker.session as s
os.environ["AWS_ENDPOINT_URL"] = os.environ["ENDPOINT"]
slept = []
real.sleep = slept.append
began = s.time.time()
limit = began + 600
s.time.sleep(10)
while s.time.time() - began < 30:
    pass
print(slept[0], s.time.time() < limit, limit - float(began), s.time.gmtime(0).tm_year)
"""


def test_the_sdk_looks_soon_at_a_job_of_this_machine_and_its_limits_stay(folder):
    ours = sitecustomize.__file__.rsplit("/", 1)[0]
    environ = {"STOKER_NOTEBOOK_METADATA": "/root/file.json", "ENDPOINT": "http://127.0.0.1:1"}
    assert python(WAIT, ours, folder, **environ) == "0.5 True 600.0 1970"


def test_a_session_that_talks_to_aws_waits_as_long_as_its_sdk_says(folder):
    ours = sitecustomize.__file__.rsplit("/", 1)[0]
    program = WAIT.replace("while s.time.time() - began < 30", "while False")
    environ = {"STOKER_NOTEBOOK_METADATA": "/root/file.json", "ENDPOINT": "https://aws.example"}
    assert python(program, ours, folder, **environ) == "10 True 600.0 1970"

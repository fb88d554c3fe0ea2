"""SDK code that goes back to a job finds in its description all that it reads there.

The jobs are processes: how they are described does not depend on the engine.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.cli.client.variables import make_variables
from stoker.platform.model.root import ROLE_ARN, read_credentials, read_server_info
from tests.platform.local_server import LocalServer
from tests.sdks import run_sdk

pytestmark = pytest.mark.timeout(600)
HERE = Path(__file__).parent


@pytest.fixture
def environ(tmp_path):
    server = LocalServer(tmp_path / "root").start()
    info = read_server_info(server.root)
    yield make_variables(server.root, info, read_credentials(server.root), {})
    server.end()


@pytest.fixture
def source(tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source/hello.py").write_text("print('hello')")
    return str(tmp_path / "source")


def test_v2_attaches_to_a_job(environ, source):
    result = run_sdk("v2", HERE / "attach_v2.py", source, environ=environ)
    assert result["metrics"] == []
    assert result["execution_role"] == ROLE_ARN
    plain, debugged = result["Estimator"], result["PyTorch"]
    for job in (plain, debugged):
        assert job["status"] == "Completed"
        assert job["role"] == ROLE_ARN
        assert job["epochs"] == "3"
        assert job["max_run"] == 86_400
        assert job["model_data"].endswith("/output/model.tar.gz")
    assert (plain["rules"], plain["profiling"], plain["interval"]) == ([], "Enabled", 500)
    assert (debugged["rules"], debugged["profiling"]) == ([0], "Enabled")
    assert debugged["interval"] == 500


def test_v3_finds_a_job_again_and_needs_no_role(environ, source):
    """Neither from its configuration nor as an argument: STS names one."""
    file = Path(environ["SAGEMAKER_USER_CONFIG_OVERRIDE"])
    without_role, _, _ = file.read_text().partition("  TrainingJob:")
    file.write_text(without_role)
    result = run_sdk("v3", HERE / "attach_v3.py", source, environ=environ)
    assert result["status"] in ("Stopped", "Completed")
    assert result["execution_role"] == ROLE_ARN
    assert result["role"] == ROLE_ARN
    assert (result["kms"], result["profiling"]) == ("", "Disabled")
    assert result["max_run"] > 0
    assert result["name"] in result["listed"]


def test_a_killed_kernel_loses_nothing(environ, tmp_path):
    """The job continues; the next kernel attaches to it and continues the run."""
    go = tmp_path / "go"
    (tmp_path / "source").mkdir()
    (tmp_path / "source/wait.py").write_text(
        "import os, pathlib, time\n"
        f"while not pathlib.Path({str(go)!r}).exists():\n"
        "    time.sleep(0.1)\n"
        "pathlib.Path(os.environ['SM_MODEL_DIR'], 'weights').write_text('whole')\n"
        "print('trained to the end', flush=True)\n"
    )
    result = run_sdk(
        "v2", HERE / "killed_kernel.py", str(tmp_path / "source"), str(go), environ=environ
    )
    assert (result["after the kill"], result["at the end"]) == ("InProgress", "Completed")
    assert "trained to the end" in result["printed"], "the log of the whole job is shown again"
    assert "/killed-kernel/output/model.tar.gz" in result["printed"]
    assert result["runs"] == ["killed-first"], "the job's run is the notebook's"

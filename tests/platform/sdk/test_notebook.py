"""`stoker.notebook.session()`: one call makes stock code in this process use the platform."""

from __future__ import annotations

from pathlib import Path

import pytest

import stoker
from tests.sdks import run_sdk

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]


@pytest.mark.parametrize("sdk", ["v2", "v3"])
def test_a_session_needs_no_variable_and_no_account(platform, sdk, tmp_path):
    wrong = {"AWS_PROFILE": "none", "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9"}
    # Our package alone: what else lies beside it belongs to another environment.
    (tmp_path / "stoker").symlink_to(Path(stoker.__file__).parent)
    result = run_sdk(
        sdk,
        Path(__file__).with_name("notebook.py"),
        str(platform.root),
        environ={**wrong, "PYTHONPATH": str(tmp_path)},
    )
    assert result["bucket"] == "sagemaker-us-east-1-000000000000"
    assert result["keys"] == ["notebook/notebook.py"]
    assert result["engine"] == "docker"
    role = "arn:aws:iam::000000000000:role/stoker-local"
    assert result["roles"] == ([role, role] if sdk == "v2" else [role])
    assert result["account"] == "000000000000"

"""SDK v2's own local mode in a shell of the platform: its containers reach the platform's S3.

Without a platform: tests/docker/local_mode.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from stoker.machine.docker import find_client
from tests.sdks import IMAGE, run_sdk

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]
SOURCE = Path(__file__).parents[2] / "docker/local_mode/source"
LABEL = "com.docker.compose.project.working_dir"


@pytest.fixture
def folder(tmp_path):
    """The SDK's; it never removes its containers."""
    yield tmp_path
    listed = _docker("ps", "--all", "--format", f'{{{{.ID}}}} {{{{.Label "{LABEL}"}}}}')
    rows = [line.split(" ", 1) for line in listed.splitlines()]
    for row in rows:
        if row[-1].startswith(str(tmp_path)):
            _docker("rm", "--force", "--volumes", row[0])
    _docker("network", "rm", "sagemaker-local")


def _docker(*arguments: str) -> str:
    done = subprocess.run([find_client(), *arguments], capture_output=True, text=True, timeout=60)
    return done.stdout


def test_local_mode_reads_code_and_writes_the_model_in_the_platforms_s3(platform, folder):
    result = run_sdk(
        "v2",
        Path(__file__).with_name("local_mode_v2.py"),
        *(str(SOURCE), IMAGE, str(folder)),
        environ={**platform.environ, "TMPDIR": str(folder)},
    )
    assert "coal for 2 epochs on one of 1 hosts" in result["printed"]
    assert result["names"] == ["model-1.txt"]

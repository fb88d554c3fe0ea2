"""SageMaker's two SDKs, as a user has them: stock code in an environment of its own."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
IMAGE = os.environ.get("STOKER_TEST_IMAGE", "stoker:cpu")
_DEADLINE_SECONDS = 800
# What would steer an SDK elsewhere, or slow it down, in the environment of the tests.
_PREFIXES = ("AWS_", "SAGEMAKER_", "SM_", "STOKER_", "PYTHON")


@functools.cache
def sdk_python(name: str) -> Path:
    """The interpreter of SDK `v2` or `v3`, or of the AWS CLI (`cli`); made where it is missing."""
    subprocess.run(
        [sys.executable, REPOSITORY / "docker/sdk_venv.py", name], cwd=REPOSITORY, check=True
    )
    return REPOSITORY / f".venv-sdk-{name}/bin/python"


def clean_environ() -> dict[str, str]:
    """The tester's own variables without those that would steer an SDK."""
    return {k: v for k, v in os.environ.items() if not k.startswith(_PREFIXES)}


def run_sdk(
    name: str,
    script: Path,
    *arguments: str,
    environ: Mapping[str, str] | None = None,
    before: Sequence[str] = (),
) -> dict[str, Any]:
    """Runs a script of a user to its end.

    Args:
        name: Of the SDK.
        script: What to run; its last line must be JSON.
        arguments: For the script.
        environ: Variables besides the usual ones.
        before: A command to run it under.

    Returns:
        What the last line said.
    """
    clean = clean_environ()
    done = subprocess.run(
        [*before, str(sdk_python(name)), str(script), *arguments],
        env={**clean, "AWS_EC2_METADATA_DISABLED": "true", **(environ or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_DEADLINE_SECONDS,
    )
    assert done.returncode == 0, done.stdout[-8000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**result, "printed": done.stdout}

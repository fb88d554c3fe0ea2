"""Helper process: pip with a CodeArtifact token. `install REPOSITORY_ARN PIP_ARGUMENTS…`.

The token lives in the environment of the pip process only: not in an argument, file or log.
"""

from __future__ import annotations

import os
import sys

from stoker.errors import StokerError
from stoker.runtime.codeartifact import codeartifact_index


def main(argv: list[str]) -> int:
    """Becomes pip. Returns only when no token could be had."""
    repository_arn, *pip = argv
    try:
        index = codeartifact_index(repository_arn)
    except StokerError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    environ = {**os.environ, "PIP_INDEX_URL": index}  # noqa: TID251 - handed on as it is
    argv = [sys.executable, "-m", "pip", *pip]
    return os.execve(sys.executable, argv, environ)  # noqa: S606 - no shell is the point

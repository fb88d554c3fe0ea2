"""The local platform in a notebook: one call, then stock SageMaker code."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.cli.client.platform_api import make_boto3_session
from stoker.cli.client.server import EngineName, ServerOptions, find_server, start_server
from stoker.cli.client.variables import find_conflicts, make_variables
from stoker.machine.environment import change_environment, default_root, read_environment
from stoker.machine.failures import UsageRefused
from stoker.notebook.python_start.sitecustomize import adapt_sdks
from stoker.platform.model.root import ACCOUNT, DEFAULT_BUCKET, open_root, read_credentials

# Where each SDK has its Session: v2, then v3.
_SDK_SESSIONS = ("sagemaker.session", "sagemaker.core.helper.session_helper")


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalSession:
    """The platform of this machine, ready to be used from this process."""

    endpoint: str
    engine: str
    root: Path
    """Its folder: objects, logs and jobs are ordinary files in it."""

    bucket: str = DEFAULT_BUCKET
    role: str = f"arn:aws:iam::{ACCOUNT}:role/stoker-local"
    """For `role=` of an estimator; `get_execution_role()` returns it, too."""

    boto3: Any
    """A boto3.Session; new clients of plain boto3 reach the platform as well."""

    def sagemaker_session(self) -> Any:  # noqa: ANN401 - the SDK is the user's, not ours
        """A `sagemaker.Session` of the SDK that is installed, v2 or v3.

        Raises:
            UsageRefused: neither is.
        """
        for name in _SDK_SESSIONS:
            try:
                module = importlib.import_module(name)
            except ImportError:
                continue
            return module.Session(boto_session=self.boto3, default_bucket=self.bucket)
        raise UsageRefused(
            "the SageMaker SDK is not installed", fix="pip install 'sagemaker<3' or sagemaker"
        )


def session(root: Path | str | None = None, *, engine: EngineName = "auto") -> LocalSession:
    """Find or start the platform and point this process's AWS settings at it.

    Args:
        root: The platform's folder; `~/.stoker/local` when left out.
        engine: Where jobs run, if the platform has to be started.

    Returns:
        The session; a plain `sagemaker.Session()` made afterwards works too.

    Example:
        >>> import stoker.notebook
        >>> local = stoker.notebook.session()                             # doctest: +SKIP
        >>> Estimator(sagemaker_session=local.sagemaker_session(), …)  # doctest: +SKIP
    """
    opened = open_root(Path(root) if root else default_root())
    server = find_server(opened) or start_server(opened, ServerOptions(engine=engine))
    credentials = read_credentials(opened)
    environ = read_environment()
    change_environment(
        make_variables(opened, server, credentials, environ), removed=find_conflicts(environ)
    )
    adapt_sdks(str(opened.notebook_metadata_file))
    return LocalSession(
        endpoint=server.endpoint,
        engine=server.engine,
        root=opened.folder,
        boto3=make_boto3_session(credentials),
    )

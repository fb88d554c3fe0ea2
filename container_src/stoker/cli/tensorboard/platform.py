"""The local platform's jobs and its S3, if one runs here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from stoker.cli.client.platform_api import open_api
from stoker.cli.client.server import find_server, require_server
from stoker.cli.client.variables import find_conflicts, make_variables
from stoker.cli.tensorboard.source import Source
from stoker.machine.failures import UsageRefused
from stoker.platform.model.root import Root, ServerInfo, read_credentials

# TensorBoard's own name for an endpoint; it would win over AWS_ENDPOINT_URL.
_ENDPOINT = "S3_ENDPOINT"


@dataclass(frozen=True, kw_only=True, slots=True)
class Platform:
    """A platform that runs."""

    root: Root
    server: ServerInfo

    def describe(self, job: str) -> Mapping[str, Any] | None:
        """DescribeTrainingJob; None if it has no such job."""
        try:
            return open_api(self.root).describe(job)
        except UsageRefused:
            return None

    def holds(self, address: str) -> bool:
        """Whether the bucket of an s3:// address is one of its folders."""
        return (self.root.s3_dir / urlsplit(address).netloc).is_dir()

    def adopt(self, source: Source, environ: Mapping[str, str]) -> Source:
        """The source, with the settings by which TensorBoard reaches this platform's S3."""
        variables = make_variables(
            self.root, self.server, read_credentials(self.root), {**environ, **source.variables}
        )
        removed = (*find_conflicts(environ), _ENDPOINT)
        return Source(logdir=source.logdir, variables=variables, removed=removed)


def find_platform(folder: Path, *, is_asked_for: bool) -> Platform | None:
    """The platform of a folder.

    Raises:
        HostError: it was asked for, and does not run.
    """
    root = Root(folder)
    server = require_server(root) if is_asked_for else find_server(root)
    return Platform(root=root, server=server) if server else None

"""Certificates that the user has named: this machine may be behind a proxy that replaces them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

VARIABLES = (
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "PIP_CERT",
    "AWS_CA_BUNDLE",
)
"""What Python, requests, curl, pip and boto3 read; one that is set is meant for all."""


def find_bundle(environment: Mapping[str, str]) -> Path | None:
    """The file of certificates that the user has named; None where the usual ones do."""
    # In the order of VARIABLES: the first one that names a file counts.
    named = (Path(environment[name]) for name in VARIABLES if environment.get(name))
    return next((file.absolute() for file in named if file.is_file()), None)


def find_broken(environment: Mapping[str, str]) -> list[str]:
    """Variables that name no file: every client that reads them fails."""
    named = [name for name in VARIABLES if environment.get(name)]
    return [name for name in named if not Path(environment[name]).exists()]

"""AWS's settings of this machine, as far as they can be read without botocore."""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from pathlib import Path

from stoker.machine.signature import Keys

# Variables that change who sends a request or where it goes, in ways that only botocore follows.
_LEFT_TO_BOTOCORE = (
    *("AWS_CREDENTIAL_EXPIRATION", "AWS_SECURITY_TOKEN", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"),
    *("AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT", "AWS_AUTH_SCHEME_PREFERENCE"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"),
)
_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
# Of a profile: with any other setting (a role, SSO, an endpoint …) it is not plain.
_PLAIN = {*_KEYS, "region", "output", "cli_pager"}


def read_region(environ: Mapping[str, str]) -> str | None:
    """The region as AWS's tools find it.

    AWS_REGION is read by the AWS CLI and most SDKs; botocore alone knows AWS_DEFAULT_REGION only.
    """
    named = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    return named or (_read_profile(environ) or {}).get("region")


def find_plain_keys(environ: Mapping[str, str]) -> Keys | None:
    """The keys that botocore would use, if they are plainly written in variables or in a profile.

    Returns:
        None: botocore has to be asked. They come from SSO, a role, a program or the machine, or
        something else changes how requests are sent: a proxy, an endpoint of a profile.
    """
    profile = _read_profile(environ)
    if profile is None or set(profile) - _PLAIN or any(map(environ.get, _LEFT_TO_BOTOCORE)):
        return None
    variables = {name: environ.get(name.upper(), "") for name in _KEYS}
    found = variables if any(variables.values()) else profile
    access_key, secret_key, token = (found.get(name, "") for name in _KEYS)
    if not access_key or not secret_key:
        return None
    return Keys(access_key=access_key, secret_key=secret_key, token=token)


def _read_profile(environ: Mapping[str, str]) -> Mapping[str, str] | None:
    """The profile's settings and keys; None if they cannot be read, or it is nowhere."""
    named = environ.get("AWS_DEFAULT_PROFILE") or environ.get("AWS_PROFILE")
    name = named or "default"
    home = Path.home() / ".aws"
    config = Path(environ.get("AWS_CONFIG_FILE") or home / "config").expanduser()
    keys = Path(environ.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials").expanduser()
    section = f"profile {name}"
    try:
        sections = [
            *_read_sections(config, (section, name) if name == "default" else (section,)),
            # The keys of this file win over those of the other one.
            *_read_sections(keys, (name,)),
        ]
    except (configparser.Error, OSError, UnicodeDecodeError):
        return None  # botocore will say what is wrong with it
    if named and not sections:
        return None
    return {key: text for each in sections for key, text in each.items()}


def _read_sections(file: Path, names: tuple[str, ...]) -> list[Mapping[str, str]]:
    parser = configparser.RawConfigParser()
    parser.read(file, encoding="utf-8")
    return [dict(parser[name]) for name in names if parser.has_section(name)]

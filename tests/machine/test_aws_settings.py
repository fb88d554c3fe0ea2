"""Settings that are read without botocore are those that botocore would use, or none."""

from __future__ import annotations

import json
from datetime import datetime

import botocore.auth
import botocore.awsrequest
import botocore.credentials
import botocore.session
import pytest

from stoker.machine.aws_settings import find_plain_keys, read_region
from stoker.machine.signature import PAYLOAD_HASH, Keys, sign

KEYS = "aws_access_key_id = A\naws_secret_access_key = S\n"
OTHER = "aws_access_key_id = B\naws_secret_access_key = T\naws_session_token = U\n"
PROCESS = json.dumps({"Version": 1, "AccessKeyId": "P", "SecretAccessKey": "Q"})


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Write the two files and set variables; returns the environment."""
    for name in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)

    def write(config, credentials, variables):
        (tmp_path / "config").write_text(config)
        (tmp_path / "credentials").write_text(credentials)
        (tmp_path / "process").write_text(f"#!/bin/sh\necho '{PROCESS}'\n")
        (tmp_path / "process").chmod(0o755)
        environ = {
            "AWS_CONFIG_FILE": str(tmp_path / "config"),
            "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
            "AWS_EC2_METADATA_DISABLED": "true",
            **variables,
        }
        for name, text in environ.items():
            monkeypatch.setenv(name, text)
        return environ

    return write


@pytest.mark.parametrize(
    ("config", "credentials", "variables", "access_key"),
    [
        ("", f"[default]\n{KEYS}", {}, "A"),
        ("[default]\nregion = eu-west-1\n", f"[default]\n{KEYS}", {}, "A"),
        (f"[profile p]\n{KEYS}", f"[p]\n{OTHER}", {"AWS_PROFILE": "p"}, "B"),
        (f"[profile p]\n{OTHER}", "", {"AWS_PROFILE": "p"}, "B"),
        (f"[profile p]\n{OTHER}", f"[q]\n{KEYS}", {"AWS_PROFILE": "p"}, "B"),
        ("", f"[p]\n{KEYS}[q]\n{OTHER}", {"AWS_PROFILE": "p", "AWS_DEFAULT_PROFILE": "q"}, "B"),
        ("", f"[default]\n{KEYS}", {"AWS_ACCESS_KEY_ID": "V", "AWS_SECRET_ACCESS_KEY": "W"}, "V"),
        (f"[profile default]\n{OTHER}", f"[other]\n{KEYS}", {}, "B"),
    ],
)
def test_plain_keys_are_those_that_botocore_finds(
    settings, config, credentials, variables, access_key
):
    found = find_plain_keys(settings(config, credentials, variables))
    wanted = botocore.session.get_session().get_credentials().get_frozen_credentials()
    assert found is not None
    assert found.access_key == wanted.access_key == access_key
    assert (found.secret_key, found.token or None) == (wanted.secret_key, wanted.token)


@pytest.mark.parametrize(
    ("config", "credentials", "variables"),
    [
        ("", "", {}),
        ("[default]\ncredential_process = /bin/true\n", f"[default]\n{KEYS}", {}),
        ("[default]\nrole_arn = r\nsource_profile = x\n", f"[default]\n{KEYS}", {}),
        ("[default]\nsso_session = s\n", "", {}),
        ("[default]\nendpoint_url = http://127.0.0.1:1\n", f"[default]\n{KEYS}", {}),
        ("[default]\ns3 =\n  addressing_style = path\n", f"[default]\n{KEYS}", {}),
        ("", f"[default]\n{KEYS}", {"HTTPS_PROXY": "http://127.0.0.1:1"}),
        ("", f"[default]\n{KEYS}", {"AWS_USE_FIPS_ENDPOINT": "true"}),
        ("", f"[default]\n{KEYS}", {"AWS_PROFILE": "nobodys"}),
        ("", f"[default]\n{KEYS}", {"AWS_ACCESS_KEY_ID": "V"}),  # without its secret
        ("not a configuration", f"[default]\n{KEYS}", {}),
    ],
)
def test_all_other_settings_are_left_to_botocore(settings, config, credentials, variables):
    assert find_plain_keys(settings(config, credentials, variables)) is None


def test_the_region_is_that_of_the_variables_or_of_the_profile(settings):
    config = "[default]\nregion = eu-west-1\n[profile p]\nregion = eu-west-3\n"
    assert read_region(settings(config, "", {})) == "eu-west-1"
    assert read_region(settings(config, "", {"AWS_PROFILE": "p"})) == "eu-west-3"
    assert read_region(settings(config, "", {"AWS_DEFAULT_REGION": "us-east-1"})) == "us-east-1"
    assert read_region(settings("", "", {"AWS_REGION": "us-west-2"})) == "us-west-2"
    assert (
        read_region({"AWS_CONFIG_FILE": "/none", "AWS_SHARED_CREDENTIALS_FILE": "/none"}) is None
    )


@pytest.mark.parametrize("token", ["", "temporary"])
def test_a_signature_is_that_of_botocore(token, monkeypatch):
    keys = Keys(access_key="A", secret_key="S", token=token)
    host, path = "127.0.0.1:9000", "/bucket/a%20b/%C3%A4"
    sha256 = "0" * 64
    ours = sign(
        *("PUT", host, path, {PAYLOAD_HASH: sha256}), keys=keys, service="s3", region="eu-west-1"
    )
    request = botocore.awsrequest.AWSRequest(
        "PUT", f"http://{host}{path}", {PAYLOAD_HASH: sha256, "Host": host}
    )
    theirs = botocore.auth.S3SigV4Auth(
        botocore.credentials.Credentials("A", "S", token or None), "s3", "eu-west-1"
    )
    monkeypatch.setattr(theirs, "payload", lambda _request: sha256)
    monkeypatch.setattr(
        botocore.auth, "get_current_datetime", lambda **_: _read_time(ours["X-Amz-Date"])
    )
    theirs.add_auth(request)
    assert request.headers["Authorization"] == ours["Authorization"]


def _read_time(text):
    return datetime.strptime(text, "%Y%m%dT%H%M%SZ")


def test_keys_are_not_shown():
    assert "hidden" not in repr(Keys(access_key="A", secret_key="hidden", token="hidden"))

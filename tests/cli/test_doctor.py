"""`stoker doctor` as a user calls it: a machine with a flaw, and the finding that names it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import stoker
from stoker.cli.doctor.sdk_checks import check_versions


def doctor(*arguments, **environ):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    done = subprocess.run(
        [sys.executable, "-m", "stoker.cli.main", "doctor", *arguments],
        env={**clean, **environ},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert "Traceback" not in done.stderr
    return done


def findings(*arguments, **environ):
    shown = json.loads(doctor("--json", *arguments, **environ).stdout)["findings"]
    return {finding["check"]: finding for finding in shown}


@pytest.fixture
def no_engine(tmp_path):
    """A client that reaches no engine stands for a machine without one."""
    return {"DOCKER_HOST": f"unix://{tmp_path}/none.sock"}


def test_everything_that_is_not_ok_has_a_fix(no_engine, tmp_path):
    found = findings("--root", str(tmp_path / "new"), **no_engine)
    assert len(found) == 16
    for finding in found.values():
        assert bool(finding["fix"]) == (finding["level"] != "ok")
        assert "could not be checked" not in finding["text"]
    assert not (tmp_path / "new").exists()


def test_certificates_are_looked_for_where_the_clients_look(no_engine, tmp_path):
    bundle = tmp_path / "ca.pem"
    bundle.write_text("a certificate")
    named = {"SSL_CERT_FILE": "", "PIP_CERT": "", "CURL_CA_BUNDLE": ""}
    found = findings(**no_engine, **named, REQUESTS_CA_BUNDLE=str(bundle))["certificates"]
    assert (found["level"], str(bundle) in found["text"]) == ("ok", True)
    found = findings(**no_engine, **named, REQUESTS_CA_BUNDLE="/none.pem")["certificates"]
    assert found["level"] == "problem"
    assert "REQUESTS_CA_BUNDLE" in found["fix"]


def test_a_machine_without_an_engine_is_warned_not_refused(no_engine):
    found = findings(**no_engine)
    assert found["engine"]["level"] == "warning"
    assert "jobs run as processes" in found["engine"]["text"]
    assert found["image"]["level"] == "ok"


@pytest.mark.docker
def test_an_image_that_is_not_there_is_a_problem():
    done = doctor("--image", "no-such-image:ever")
    assert done.returncode == 1
    assert "Docker has no image no-such-image:ever" in done.stdout
    assert "fix: docker pull no-such-image:ever" in done.stdout


def test_no_fix_needs_a_clone_or_removes_what_is_not_ours(no_engine, tmp_path):
    """As a pip user has it: the package alone, without the repository around it."""
    shutil.copytree(Path(stoker.__file__).parent, tmp_path / "site/stoker")
    found = findings(
        "--root", str(tmp_path / "new"), PYTHONPATH=str(tmp_path / "site"), **no_engine
    )
    fixes = " ".join(finding["fix"] for finding in found.values())
    assert "https://docs.docker.com/engine/install/" in found["engine"]["fix"]
    for word in ("engine.sh", "docker rm", "prune", "make "):
        assert word not in fixes.replace("make one environment", "")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AWS_PROFILE", "work"),
        ("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9"),
        ("AWS_SESSION_TOKEN", "old"),
        ("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true"),
    ],
)
def test_variables_in_the_way_are_named(no_engine, name, value):
    found = findings(**no_engine, **{name: value})
    assert found["AWS variables"]["level"] == "warning"
    assert name in found["AWS variables"]["text"]
    assert value not in found["AWS variables"]["text"]


def test_a_proxy_that_would_be_asked_for_loopback_is_named(no_engine):
    found = findings(**no_engine, http_proxy="http://proxy:3128", no_proxy="", NO_PROXY="")
    assert "proxy" in found["AWS variables"]["text"]
    found = findings(**no_engine, http_proxy="http://proxy:3128", no_proxy="localhost,127.0.0.1")
    assert found["AWS variables"]["level"] == "ok"


def test_the_region_is_found_in_the_profile_too(no_engine, tmp_path):
    config = tmp_path / "config"
    config.write_text("[profile work]\nregion = eu-west-1\n")
    found = findings(**no_engine, AWS_CONFIG_FILE=str(config), AWS_PROFILE="work")
    assert found["region"]["text"].startswith("eu-west-1")
    found = findings(**no_engine, AWS_CONFIG_FILE=str(config))
    assert found["region"]["level"] == "warning"


@pytest.mark.parametrize(
    ("printed", "deaf"),
    [
        ("Docker Compose version v2.24.0", ""),
        ("Docker Compose version 2.40.3-3", "SDK v2 finds no"),
        ("Docker Compose version v5.0.1", "SDK v2 finds no"),
        (None, "SDK v2 and v3 finds no"),
    ],
)
def test_compose_is_checked_as_each_sdk_checks_it(tmp_path, printed, deaf):
    docker = tmp_path / "docker"
    answer = f"echo '{printed}'" if printed else "echo unknown command >&2; exit 1"
    docker.write_text(f'#!/bin/sh\n[ "$1" = compose ] || exit 1\n{answer}\n')
    docker.chmod(0o755)
    for tool in ("sh", "ip", "ps", "cat"):
        (tmp_path / tool).symlink_to(f"/bin/{tool}")
    found = findings(PATH=str(tmp_path))
    assert deaf in found["compose"]["text"]
    assert found["compose"]["level"] == ("warning" if deaf else "ok")


@pytest.mark.parametrize(
    ("versions", "level"),
    [
        ({}, "ok"),
        ({"sagemaker": "2.257.7", "sagemaker-core": "1.0.78"}, "ok"),
        ({"sagemaker": "3.27.0", "sagemaker-core": "2.27.0", "sagemaker-train": "1.27.0"}, "ok"),
        ({"sagemaker": "2.257.7", "sagemaker-core": "2.27.0"}, "problem"),
    ],
)
def test_two_sdks_in_one_environment_are_a_problem(versions, level):
    assert check_versions(versions).level == level

"""`stoker smdebug install`, into real environments, with the wheel of the package index."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

from stoker.debugging.repack import VERSION
from tests.smdebug_wheels import fetch_published

pytestmark = pytest.mark.functional

WHAT_IS_THERE = (
    "import importlib.metadata as m; print(m.version('smdebug'), m.files('smdebug')[0])"
)


@pytest.fixture(scope="module")
def published(tmp_path_factory) -> Path:
    return fetch_published(tmp_path_factory.mktemp("published"))


@pytest.fixture
def environment(tmp_path) -> Path:
    """An empty environment; its site-packages."""
    venv.create(tmp_path / "venv")
    return next(tmp_path.glob("venv/lib/python*/site-packages"))


@pytest.fixture
def python(environment) -> str:
    return str(environment.parents[2] / "bin/python")


def pretend(environment: Path, name: str, version: str) -> None:
    info = environment / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def run(cli, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return cli.run("smdebug", "install", *map(str, arguments), **environ)


def test_it_is_fetched_fixed_and_put_into_a_folder(cli, tmp_path):
    done = run(cli, "--target", tmp_path / "folder")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"smdebug: {VERSION} is installed in {tmp_path}/folder\n")
    assert (tmp_path / f"folder/smdebug-{VERSION}.dist-info/STOKER-CHANGES").is_file()
    assert not (tmp_path / "folder/numpy").exists()


def test_an_environment_gets_it_and_gets_it_again(cli, environment, python, published):
    alone = {"PIP_NO_DEPS": "1"}  # what it depends on would take minutes
    first = run(cli, "--python", python, "--wheel", published, **alone)
    assert first.returncode == 0, first.stderr
    module = environment / "smdebug/core/strtobool.py"
    module.write_text("damaged")
    again = run(cli, "--python", python, "--wheel", published, **alone)
    assert again.returncode == 0, again.stderr
    assert f"({VERSION} is there)" in again.stdout
    assert module.read_text() != "damaged"
    said = subprocess.run([python, "-c", WHAT_IS_THERE], capture_output=True, text=True)
    assert said.stdout.startswith(VERSION)


def test_an_older_one_of_ours_is_replaced_and_the_dry_run_says_so(cli, environment, python):
    pretend(environment, "smdebug", "1.0.34+stoker1")
    done = run(cli, "--python", python, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert f"{VERSION} for {python} (1.0.34+stoker1 is there)" in done.stdout
    assert "--require-hashes" in done.stdout
    assert not (environment / "smdebug").exists()


@pytest.mark.parametrize(
    ("name", "version", "says"),
    [
        ("smdebug", "1.0.12", "smdebug 1.0.12 is installed there, and it is not ours"),
        ("protobuf", "3.19.6", "protobuf 3.19.6 is installed there, but smdebug"),
    ],
)
def test_what_does_not_go_together_is_refused(cli, environment, python, name, version, says):
    pretend(environment, name, version)
    done = run(cli, "--python", python)
    assert done.returncode == 2
    assert says in done.stderr
    assert f"fix: {python} -m pip" in done.stderr


def test_without_a_network_the_way_with_a_file_is_shown(cli, tmp_path):
    done = run(cli, "--target", tmp_path / "folder", PIP_NO_INDEX="1", PIP_CONFIG_FILE="/dev/null")
    assert done.returncode == 3
    assert "smdebug 1.0.34 could not be fetched" in done.stderr
    assert "give the file with --wheel" in done.stderr


def test_another_wheel_is_refused(cli, tmp_path):
    other = tmp_path / "smdebug-1.0.12-py2.py3-none-any.whl"
    other.write_bytes(b"not it")
    done = run(cli, "--target", tmp_path / "folder", "--wheel", other)
    assert done.returncode == 3
    assert "is not the published wheel of smdebug 1.0.34" in done.stderr
    assert not (tmp_path / "folder").exists()


def test_what_is_not_python_is_named(cli, tmp_path):
    for python in (tmp_path / "nowhere", "false"):
        done = run(cli, "--python", python)
        assert done.returncode == 2
        assert f"{python} " in done.stderr
        assert "fix: name a Python" in done.stderr


def test_a_folder_and_an_environment_exclude_each_other(cli, tmp_path):
    done = run(cli, "--target", tmp_path, "--python", sys.executable)
    assert done.returncode == 2
    assert "not allowed with" in done.stderr

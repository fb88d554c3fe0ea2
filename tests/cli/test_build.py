"""`stoker build`: the plan, the choice of the base, and what a failure says."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import sys
from pathlib import Path

import pytest

from stoker import __version__
from stoker.cli import main as cli
from stoker.cli.commands.build import BuildPlan, BuildStatus, make_command, make_hint, render
from stoker.machine.base_image import OWN, SLIM, BasePlan, provide_base, read_digest
from stoker.machine.checkout import (
    INSTALLED,
    find_repository,
    provide_context,
    read_revision,
)
from stoker.machine.docker import Builder, ask, run_live
from stoker.machine.failures import BuildFailed, UsageRefused
from stoker.machine.pip_settings import PipSettings


def make_plan(**changes) -> BuildPlan:
    values = {
        "builder": Builder(name="a builder", argv=("docker", "buildx", "build")),
        "base": BasePlan(image=SLIM, reason="it is on this machine"),
        "context": Path("/checkout"),
        "flavor": "cpu",
        "tag": "stoker:cpu",
        "pip": PipSettings(options={}),
        "build_args": ("VERSION=1", "REVISION=abc"),
        "labels": (),
    }
    return BuildPlan(**{**values, **changes})


def test_the_command_names_target_tag_base_and_secrets():
    plan = make_plan(pip=PipSettings(options={}, ca_bundle=Path("/ca.crt")))
    command = make_command(plan, base=OWN, digest="sha256:ab", secrets=Path("/s"))
    line = shlex.join(command)
    assert line.startswith("docker buildx build --progress=plain")
    for part in (
        "--target cpu",
        "--tag stoker:cpu",
        f"--build-arg BASE_IMAGE={OWN}",
        "--label org.opencontainers.image.base.digest=sha256:ab",
        "--secret id=pipconf,src=/s/pip.conf",
        "--secret id=ca,src=/ca.crt",
    ):
        assert part in line
    assert command[-1] == "/checkout"


@pytest.mark.parametrize(("folders", "expected"), [((), False), ((Path("/wheels"),), True)])
def test_the_hosts_network_is_used_only_for_wheels_served_on_loopback(folders, expected):
    plan = make_plan(pip=PipSettings(options={}, folders=folders))
    command = make_command(plan, base=SLIM, digest="", secrets=Path("/s"))
    assert ("--network=host" in command) == expected


def test_the_plan_shows_no_token_of_a_private_index():
    plan = make_plan(pip=PipSettings(options={"index-url": "https://u:hunter2@x/simple"}))
    assert "hunter2" not in render(plan)


def test_the_base_is_pinned_and_the_dockerfile_names_the_same_one():
    dockerfile = (find_repository(None) / "docker/Dockerfile").read_text()
    assert f"\nARG BASE_IMAGE={SLIM}\n" in dockerfile
    assert re.fullmatch("sha256:[0-9a-f]{64}", read_digest(SLIM))


def test_a_base_that_cannot_be_pulled_is_made(capsys):
    plan = BasePlan(image=SLIM, reason="", pull=("false",), fallback=("echo", "made"))
    assert provide_base(plan) == OWN
    assert "making stoker/base:bookworm" in capsys.readouterr().out


def test_a_base_that_can_be_pulled_is_used():
    assert provide_base(BasePlan(image=SLIM, reason="", pull=("true",))) == SLIM


def test_without_any_base_the_build_says_what_to_pass():
    plan = BasePlan(image=SLIM, reason="", pull=("false",), fallback=("false",))
    with pytest.raises(BuildFailed, match="--base-image"):
        provide_base(plan)


@pytest.mark.parametrize(
    ("tail", "hint"),
    [
        ("ERROR: No matching distribution found for torch==2.13.0+cpu", "find-links"),
        ("THESE PACKAGES DO NOT MATCH THE HASHES FROM", "make lock"),
        ("SSLError: CERTIFICATE_VERIFY_FAILED", "global.cert"),
        ("write: No space left on device", "disk"),
        ("something new", "last lines"),
    ],
)
def test_a_failed_build_names_the_fix(tail, hint):
    assert hint in make_hint(tail)


def test_a_context_that_is_not_a_checkout_is_refused(tmp_path):
    with pytest.raises(UsageRefused, match="--context"):
        find_repository(tmp_path)


def test_the_checkout_is_found_from_a_folder_inside_it(monkeypatch):
    monkeypatch.chdir(Path(__file__).parent)
    assert (find_repository(None) / "docker/Dockerfile").is_file()


def test_an_installed_package_builds_from_the_same_files_as_its_checkout(monkeypatch, tmp_path):
    checkout = find_repository(None)
    monkeypatch.chdir(tmp_path)
    assert find_repository(None) == INSTALLED
    assert read_revision(INSTALLED).label == f"v{__version__}"
    context = provide_context(INSTALLED, tmp_path)
    for folder in ("docker", "container_src/bin", "container_src/stoker"):
        expected = {f.relative_to(checkout) for f in _files(checkout / folder)}
        found = {f.relative_to(context) for f in _files(context / folder)}
        assert found == expected
        for file in expected:
            assert (context / file).read_bytes() == (checkout / file).read_bytes(), file
            assert os.access(context / file, os.X_OK) == os.access(checkout / file, os.X_OK), file
    for file in ("pyproject.toml", "README.md", "LICENSE", "container_src/stoker_autoload.pth"):
        assert (context / file).read_bytes() == (checkout / file).read_bytes()


def _files(folder: Path) -> list[Path]:
    return [f for f in folder.rglob("*") if f.is_file() and "__pycache__" not in f.parts]


def test_an_unknown_flavor_is_a_usage_error(capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["build", "--flavor", "gpu"])
    assert stopped.value.code == 2
    assert "invalid choice" in capsys.readouterr().err


def test_quiet_commands_report_missing_programs_and_timeouts():
    assert ask(["no-such-program"]).code == 127
    assert ask(["sleep", "5"], timeout_seconds=0.1).code == 124
    assert ask(["sh", "-c", "echo; echo why >&2; exit 4"]).tail == "why"


def test_a_build_shows_its_step_time_and_bytes():
    now = 0.0
    status = BuildStatus(clock=lambda: now)
    assert status.describe("#1 [internal] load build definition\n") == (
        "» [internal] load build definition, 0 s"
    )
    status.describe("#4 [base 1/3] FROM docker.io/library/debian:12\n")
    status.describe(f"#4 sha256:{'a' * 64} 10.00MB / 50.00MB 0.1s\n")
    now = 2.0
    assert status.describe(f"#4 sha256:{'a' * 64} 30.00MB / 50.00MB 2.0s\n") == (
        "» [base 1/3] FROM docker.io/library/debian:12, 2 s, "
        "sha256:aaaaaaaaaaaa: 30 MB of 50 MB, 15 MB/s, 1 s left"
    )
    now = 70.0
    assert (
        status.describe("#5 [venv 2/3] RUN pip install\n") == "» [venv 2/3] RUN pip install, 0 s"
    )
    now = 135.0
    assert status.describe("") == "» [venv 2/3] RUN pip install, 1 min 05 s"
    assert status.describe("#5 60.1 Downloading torch\n").startswith("» [venv 2/3]")


def test_a_silent_command_keeps_the_line_at_the_bottom_moving(monkeypatch, tmp_path):
    looks = []

    def describe(line):
        looks.append(line)
        if len(looks) == 2:
            (tmp_path / "seen").touch()  # what the command waits for
        return f"» look {len(looks) - 1}"

    command = f"until [ -e {tmp_path}/seen ]; do sleep 0.1; done; echo done"
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as screen:
        monkeypatch.setattr(sys, "stdout", screen)
        run_live(["sh", "-c", command], describe=describe)
        shown = ""
        while not ("done\r\n" in shown and shown.endswith("\r\x1b[K")):
            # A terminal hands over what has come so far; the rest needs another read.
            assert select.select([ours], [], [], 60)[0], shown
            shown += os.read(ours, 10_000).decode(errors="replace")
    os.close(ours)
    assert "» look 0\r\x1b[K» look 1" in shown


def test_long_commands_show_their_lines_and_keep_the_last(capsys):
    finished = run_live(["sh", "-c", "cat; echo done >&2; exit 3"], stdin_text="hello\n")
    assert (finished.code, finished.tail) == (3, "hello\ndone")
    assert capsys.readouterr().out == "hello\ndone\n"

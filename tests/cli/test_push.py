"""`stoker push`: the tag, the refusals and the dry run, over real git repositories."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from stoker import __version__
from stoker.cli.commands import push
from stoker.cli.commands.push import PushPlan
from stoker.machine.checkout import (
    Revision,
    git_environment,
    read_framework,
    read_revision,
    read_source_url,
)
from stoker.machine.failures import UsageRefused

URI = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/team/stoker"


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path) -> Path:
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker/Dockerfile").write_text("FROM scratch\n")
    (tmp_path / "docker/cpu.lock").write_text("torch==2.13.0+cpu \\\n    --hash=sha256:0\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    return tmp_path


def make_plan() -> PushPlan:
    return PushPlan(
        client="docker-that-is-not-there",
        image="stoker:cpu",
        registry="registry.example",
        region="eu-west-1",
        repository="team/stoker",
        tag="t",
    )


def test_a_clean_tree_and_a_changed_one_are_told_apart(checkout):
    clean = read_revision(checkout)
    assert len(clean.commit) == 40
    assert not clean.dirty
    (checkout / "new.txt").write_text("x")
    assert read_revision(checkout) == Revision(commit=clean.commit, dirty=True)
    assert read_revision(checkout).label == f"{clean.commit}-dirty"
    assert git_environment(checkout) == {"STOKER_GIT_COMMIT": f"{clean.commit}-dirty"}


def test_a_folder_without_git_has_no_commit(tmp_path):
    assert read_revision(tmp_path) == Revision(commit="", dirty=True)
    assert git_environment(tmp_path) == {}


def test_the_source_address_holds_no_credentials(checkout):
    assert read_source_url(checkout) == ""
    git(checkout, "remote", "add", "origin", "https://me:secret@git.example/team/stoker.git")
    assert read_source_url(checkout) == "https://git.example/team/stoker.git"


def test_the_frameworks_version_comes_from_the_lock(checkout):
    assert read_framework(Path(__file__).parents[2], "tensorflow") == "tensorflow2.21.0"
    assert read_framework(checkout, "cpu") == "torch2.13.0"
    with pytest.raises(UsageRefused, match="make lock"):
        read_framework(checkout, "cuda")


def test_each_reason_against_a_push_is_named():
    changed = push.refusals(make_plan(), Revision(commit="abc", dirty=True))
    assert "differs from its commit" in changed[0]
    assert "no image stoker:cpu" in changed[1]
    assert "nothing is committed" in push.refusals(make_plan(), Revision(commit="", dirty=True))[0]


def test_the_commands_keep_the_password_off_the_command_line_and_off_the_machine():
    login, tag, upload = push.make_commands(make_plan(), config=Path("/tmp-config"))
    assert "--password-stdin" in login
    for command in (login, tag, upload):
        assert command[1:3] == ["--config", "/tmp-config"]
    assert upload[-1] == "registry.example/team/stoker:t"


def test_the_plan_prints_the_commands_as_a_shell_takes_them():
    text = push.render(make_plan())
    assert "$ aws ecr get-login-password --region eu-west-1 | docker-that-is-not-there" in text
    assert text.splitlines()[-1].endswith("push registry.example/team/stoker:t")


def test_a_full_address_names_registry_region_and_repository():
    found = push._ECR.fullmatch(URI)
    assert found
    assert (found["region"], found["name"]) == ("eu-west-1", "team/stoker")


def test_the_tag_names_version_torch_flavor_and_commit(checkout, monkeypatch):
    monkeypatch.setattr(push, "find_client", lambda: "docker")
    args = push.argparse.Namespace(
        repository=URI, region=None, flavor="cpu", image=None, dry_run=True
    )
    revision = read_revision(checkout)
    plan = push.plan_push(args, context=checkout, revision=revision)
    assert plan.tag == f"{__version__}-torch2.13.0-cpu-{revision.commit[:12]}"
    assert plan.target == f"{URI}:{plan.tag}"

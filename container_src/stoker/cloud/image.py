"""A local image in the account's registry, by its digest: pushed only if it is not there."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from dataclasses import dataclass

from stoker.cloud.account import Account
from stoker.errors import HostError
from stoker.machine.aws import read_login_password
from stoker.machine.docker import ask, find_client, make_image_fix, require_engine, run_live
from stoker.machine.failures import ImageMissing, PushFailed

_ECR = re.compile(r"\d{12}\.dkr\.ecr\.(?P<region>[\w-]+)\.amazonaws\.com(\.cn)?")


@dataclass(frozen=True, kw_only=True, slots=True)
class PushTarget:
    """Where a local image goes."""

    image: str
    registry: str
    repository: str

    @property
    def name(self) -> str:
        """Without tag and digest."""
        return f"{self.registry}/{self.repository}"

    @property
    def is_ecr(self) -> bool:
        """Whether ECR is asked; other registries are used as Docker is logged in there."""
        return _ECR.fullmatch(self.registry) is not None


def is_remote(image: str) -> bool:
    """Whether a name has a registry, such as ACCOUNT.dkr.ecr.REGION.amazonaws.com/NAME."""
    first, slash, _ = image.partition("/")
    return bool(slash) and ("." in first or ":" in first or first == "localhost")


def make_target(image: str, repository: str | None, *, registry: str) -> PushTarget:
    """Where an image is pushed to.

    Args:
        image: its local name.
        repository: as the user names it, with or without a registry; None: the image's name.
        registry: the account's.
    """
    name = repository or image.partition("@")[0].rpartition("/")[2].partition(":")[0]
    if repository and is_remote(repository):
        registry, _, name = repository.partition("/")
    return PushTarget(image=image, registry=registry, repository=name)


def push_by_digest(target: PushTarget, account: Account) -> str:
    """The image's name with its digest; pushed unless the registry has it.

    Raises:
        ImageMissing: Docker does not hold the image.
        PushFailed: the registry or the engine refused.
        HostError: AWS refuses; translated.
    """
    client = find_client()
    require_engine(client)
    known = _read_digests(client, target)
    if known and target.is_ecr and _has_digest(account, target, known):
        return f"{target.name}@{known}"
    # A tag of its own for each content: repositories with immutable tags accept it.
    content = ask([client, "image", "inspect", "--format", "{{.Id}}", target.image]).stdout.strip()
    pushed = f"{target.name}:stoker-{content.removeprefix('sha256:')[:24]}"
    with tempfile.TemporaryDirectory(prefix="stoker-push-") as folder:
        docker = [client]
        if target.is_ecr:  # else as the user is logged in
            docker += ["--config", folder]
            _login(docker, target, account)
        _run([client, "tag", target.image, pushed])
        _run([*docker, "push", "--quiet", pushed])
    digest = _read_digests(client, target)
    if not digest:
        raise PushFailed(
            f"{pushed} was pushed, but Docker does not tell its digest",
            fix=f"pass the image with its digest: --image {target.name}@sha256:…",
        )
    return f"{target.name}@{digest}"


def _login(docker: list[str], target: PushTarget, account: Account) -> None:
    # Asked first: Docker's own message for a missing repository is a retry without an end.
    account.call("ecr", "DescribeRepositories", repositoryNames=[target.repository])
    password = read_login_password(account.region)
    login = [*docker, "login", "--username", "AWS", "--password-stdin", target.registry]
    _run(login, stdin_text=password)


def _has_digest(account: Account, target: PushTarget, digest: str) -> bool:
    try:
        account.call(
            "ecr",
            "DescribeImages",
            repositoryName=target.repository,
            imageIds=[{"imageDigest": digest}],
        )
    except HostError:
        return False  # not there, or not to be seen: the push tells which
    return True


def _read_digests(client: str, target: PushTarget) -> str:
    """The digest under which Docker knows the image in this repository; empty if it does not."""
    finished = ask([client, "image", "inspect", "--format", "{{json .RepoDigests}}", target.image])
    if finished.code != 0:
        raise ImageMissing(f"Docker has no image {target.image}", fix=make_image_fix(target.image))
    names = json.loads(finished.stdout or "[]") or []
    found = (name.partition("@")[2] for name in names if name.partition("@")[0] == target.name)
    return next(found, "")


def _run(command: list[str], *, stdin_text: str | None = None) -> None:
    finished = run_live(command, stdin_text=stdin_text, stream=sys.stderr)
    if finished.code != 0:
        verb = next(word for word in command[1:] if word in ("login", "tag", "push"))
        raise PushFailed(
            f"`docker {verb}` ended with {finished.code}",
            fix="see the lines above; log in there first if the registry is not ECR",
        )

"""`stoker push`: put an image into ECR under a tag that is never used twice."""

from __future__ import annotations

import argparse
import re
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path

from stoker import __version__
from stoker.machine import aws
from stoker.machine.checkout import Revision, find_repository, read_framework, read_revision
from stoker.machine.docker import (
    Finished,
    ask,
    find_client,
    image_labels,
    require_engine,
    run_live,
)
from stoker.machine.failures import PushFailed, UsageRefused

_ECR = re.compile(
    r"(?P<registry>\d{12}\.dkr\.ecr\.(?P<region>[\w-]+)\.amazonaws\.com[.\w]*)/(?P<name>.+)"
)
_REVISION_LABEL = "org.opencontainers.image.revision"


@dataclass(frozen=True, kw_only=True, slots=True)
class PushPlan:
    """Everything a push does, before it does any of it."""

    client: str
    """The Docker client."""

    image: str
    """The local image."""

    registry: str
    """The address of the registry."""

    region: str
    """The registry's region."""

    repository: str
    """The name in the registry."""

    tag: str
    """Version, torch, flavour and commit."""

    @property
    def target(self) -> str:
        """The full name of the image in the registry."""
        return f"{self.registry}/{self.repository}:{self.tag}"


def run(args: argparse.Namespace) -> int:
    """Make the plan; print it or carry it out."""
    context = find_repository(args.context)
    revision = read_revision(context)
    plan = plan_push(args, context=context, revision=revision)
    print(render(plan), flush=True)
    if args.dry_run:
        for why in refusals(plan, revision):
            print(f"push: would be refused: {why}")
        return 0
    carry_out(plan, revision=revision)
    return 0


def plan_push(args: argparse.Namespace, *, context: Path, revision: Revision) -> PushPlan:
    """Decide the registry and the tag."""
    given = _ECR.fullmatch(args.repository)
    if given:
        registry, region, name = given["registry"], given["region"], given["name"]
    else:
        registry, region = _registry(args.region, dry_run=args.dry_run)
        name = args.repository
    framework = read_framework(context, args.flavor)
    return PushPlan(
        client=find_client(),
        image=args.image or f"stoker:{args.flavor}",
        registry=registry,
        region=region,
        repository=name,
        tag=f"{__version__}-{framework}-{args.flavor}-{revision.commit[:12] or 'uncommitted'}",
    )


def refusals(plan: PushPlan, revision: Revision) -> list[str]:
    """Why this image must not be pushed under this tag; none when all is well."""
    reasons = []
    if not revision.commit:
        reasons.append("nothing is committed, so the tag would name no state of the code")
    elif revision.dirty:
        reasons.append("the working tree differs from its commit, which the tag would name")
    built_from = image_labels(plan.client, plan.image).get(_REVISION_LABEL)
    if built_from is None:
        reasons.append(f"there is no image {plan.image} made by `stoker build`")
    elif built_from != revision.commit:
        reasons.append(f"{plan.image} was built from {built_from}, not from {revision.commit}")
    return reasons


def make_commands(plan: PushPlan, *, config: Path) -> list[list[str]]:
    """Login, tag and push, in this order; the login reads its password from standard input."""
    # A configuration folder of our own: the password does not stay on the user's machine.
    docker = [plan.client, "--config", str(config)]
    return [
        [*docker, "login", "--username", "AWS", "--password-stdin", plan.registry],
        [*docker, "tag", plan.image, plan.target],
        [*docker, "push", plan.target],
    ]


def render(plan: PushPlan) -> str:
    """The commands, as a shell would take them."""
    password = ["aws", "ecr", "get-login-password", "--region", plan.region]
    login, *others = make_commands(plan, config=Path("TEMPORARY"))
    lines = [f"$ {shlex.join(password)} | {shlex.join(login)}"]
    return "\n".join([f"push: {plan.target}", *lines, *(f"$ {shlex.join(c)}" for c in others)])


def carry_out(plan: PushPlan, *, revision: Revision) -> None:
    """Push, unless the tree is dirty, the image stale or the tag taken.

    Raises:
        UsageRefused: one of these, with all reasons at once.
        PushFailed: the engine or the registry refused.
    """
    require_engine(plan.client)
    reasons = refusals(plan, revision)
    if not reasons and aws.tag_exists(plan.repository, plan.tag, region=plan.region):
        reasons.append(f"{plan.target} exists already; a tag is never used twice")
    if reasons:
        raise UsageRefused("; ".join(reasons), fix="commit, run `stoker build`, then push")
    with tempfile.TemporaryDirectory(prefix="stoker-push-") as config:
        login, *others = make_commands(plan, config=Path(config))
        _succeed(run_live(login, stdin_text=aws.read_login_password(plan.region)), login)
        for command in others:
            _succeed(run_live(command), command)
    digests = '{{join .RepoDigests " "}}'
    pushed = ask([plan.client, "image", "inspect", "--format", digests, plan.target])
    print(f"push: done; image_uri={plan.target}\npush: digests: {pushed.tail}")


def _registry(region: str | None, *, dry_run: bool) -> tuple[str, str]:
    try:
        return aws.read_registry(region)
    except (PushFailed, UsageRefused) as error:
        if not dry_run:
            raise
        print(f"push: {error.message}; shown with placeholders")
        where = region or "REGION"
        return f"ACCOUNT.dkr.ecr.{where}.amazonaws.com", where


def _succeed(finished: Finished, command: list[str]) -> None:
    if finished.code != 0:
        verb = command[3]
        raise PushFailed(f"`docker {verb}` ended with {finished.code}", fix="see the lines above")

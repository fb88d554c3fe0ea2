"""The image to build on: the one asked for, a Debian slim image, or one made on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stoker.machine.docker import ask, find_client, image_present, run_live
from stoker.machine.failures import BuildFailed

# Pinned, so that two builds stand on the same files; the Dockerfile names the same one.
SLIM = (
    "debian:bookworm-slim@sha256:88200866dfff7ea7f5cbcb6ec7c8a701889efe6fe859fe64d6990e4b07ea4171"
)
OWN = "stoker/base:bookworm"
_PULL_SECONDS = 180


@dataclass(frozen=True, kw_only=True, slots=True)
class BasePlan:
    """Which base, why, and what to run before the build to have it."""

    image: str
    """The image to build on; when there are steps, the one they aim for."""

    reason: str
    """Why this one, for the output."""

    pull: tuple[str, ...] = ()
    """A command that fetches it; empty when it is there."""

    fallback: tuple[str, ...] = ()
    """A command that makes `OWN` when the fetching fails."""


def plan_base(client: str, *, asked_for: str | None, repository: Path) -> BasePlan:
    """Choose the base by looking at this machine's images; fetches nothing."""
    if asked_for:
        return BasePlan(image=asked_for, reason="as asked for")
    if image_present(client, SLIM):
        return BasePlan(image=SLIM, reason="it is on this machine")
    if image_present(client, OWN):
        return BasePlan(image=OWN, reason=f"{SLIM} is not on this machine, this one is")
    return BasePlan(
        image=SLIM,
        reason=f"pulled; where no registry can be reached, {OWN} is made with debootstrap",
        pull=(client, "pull", "--quiet", SLIM),
        fallback=(str(repository / "docker/base/make-base.sh"),),
    )


def provide_base(plan: BasePlan) -> str:
    """Carry the plan out; returns the image that is there now.

    Raises:
        BuildFailed: it could neither be pulled nor made.
    """
    if not plan.pull:
        return plan.image
    print(f"base: pulling {plan.image}", flush=True)
    pulled = ask(plan.pull, timeout_seconds=_PULL_SECONDS)
    if pulled.code == 0:
        return plan.image
    print(f"base: no registry ({pulled.tail or 'no reason given'}); making {OWN}", flush=True)
    made = run_live(plan.fallback)
    if made.code != 0:
        raise BuildFailed(
            f"no base image: {plan.image} could not be pulled and {OWN} could not be made",
            fix="see the lines above, or pass one: stoker build --base-image IMAGE",
        )
    return OWN


def read_digest(image: str) -> str:
    """The digest of a base: the registry's, or the id of an image made here; "" if unknown."""
    if "@" in image:
        return image.partition("@")[2]
    shown = "{{if .RepoDigests}}{{index .RepoDigests 0}}{{else}}{{.Id}}{{end}}"
    answer = ask([find_client(), "image", "inspect", "--format", shown, image])
    # NAME@sha256:…, or the bare id of an image that came from no registry.
    return answer.tail.rpartition("@")[2] if answer.code == 0 else ""

"""The image to build on: the one asked for, a Debian slim image, or one made on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stoker.machine.docker import ask, image_present, run_live
from stoker.machine.failures import BuildFailed

SLIM = "debian:bookworm-slim"
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

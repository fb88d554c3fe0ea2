"""The files that an image is built from: a checkout of Stoker, or those inside the wheel."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from stoker import __version__
from stoker.bus.run_file import GIT_VARIABLE
from stoker.machine.docker import ask
from stoker.machine.failures import UsageRefused

_DOCKERFILE = Path("docker/Dockerfile")
_PACKAGE = Path(__file__).resolve().parents[1]
_AUTOLOAD = "stoker_autoload.pth"
INSTALLED = _PACKAGE / "build_files"
"""What the wheel carries for `stoker build`; a checkout has no such folder."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Revision:
    """The state of the working tree."""

    commit: str
    """The full commit id, or the version of a wheel; empty if nothing is committed yet."""

    dirty: bool
    """Whether files differ from that commit."""

    @property
    def label(self) -> str:
        """What the image's revision label says."""
        return (self.commit or "unknown") + ("-dirty" if self.dirty and self.commit else "")


def find_repository(asked_for: Path | None) -> Path:
    """The checkout asked for; else that of the working directory; else what is installed.

    Raises:
        UsageRefused: there is none.
    """
    here = Path.cwd()
    # The user's checkout before the package's own: they may work on another copy.
    elsewhere = [here, *here.parents, INSTALLED, *_PACKAGE.parents]
    folders = [asked_for.resolve()] if asked_for else elsewhere
    for folder in folders:
        if (folder / _DOCKERFILE).is_file():
            return folder
    raise UsageRefused(
        f"no {_DOCKERFILE} in {folders[0]}" + ("" if asked_for else " or above it"),
        fix="run it inside a checkout of Stoker, or pass one: --context DIR",
    )


def provide_context(repository: Path, scratch: Path) -> Path:
    """The folder that the builder reads: the checkout, or one laid out from an installed wheel."""
    if repository != INSTALLED:
        return repository
    context = scratch / "context"
    shutil.copytree(INSTALLED, context)
    unused = shutil.ignore_patterns("__pycache__", INSTALLED.name)
    shutil.copytree(_PACKAGE, context / "container_src/stoker", ignore=unused)
    shutil.copy(_PACKAGE.parent / _AUTOLOAD, context / "container_src")
    return context


def read_revision(repository: Path) -> Revision:
    """Ask git for the commit and whether the tree is clean; no git is an ordinary answer."""
    if repository == INSTALLED:  # a release does not change: its version is its name
        return Revision(commit=f"v{__version__}", dirty=False)
    git = ["git", "-C", str(repository)]
    head = ask([*git, "rev-parse", "--verify", "HEAD"])
    status = ask([*git, "status", "--porcelain", "--", "."])
    return Revision(
        commit=head.tail if head.code == 0 else "",
        dirty=status.code != 0 or bool(status.tail),
    )


def git_environment(source_dir: str | Path = ".") -> dict[str, str]:
    """The commit that a folder of code is at, as a variable of a job: its lineage names it.

    Args:
        source_dir: the folder; outside of a git repository there is nothing to name.

    Example:
        `PyTorch(source_dir="src", environment=git_environment("src"), …)`
    """
    folder = Path(source_dir).resolve()
    if not any((each / ".git").exists() for each in (folder, *folder.parents)):
        return {}  # without a call of git
    revision = read_revision(folder)
    return {GIT_VARIABLE: revision.label} if revision.commit else {}


def read_source_url(repository: Path) -> str:
    """The address of `origin` without any credentials in it; empty when there is none."""
    if repository == INSTALLED:  # the folder may be inside another project's checkout
        return ""
    origin = ask(["git", "-C", str(repository), "remote", "get-url", "origin"])
    parts = urlsplit(origin.tail) if origin.code == 0 else None
    if parts is None or parts.scheme not in {"http", "https"}:
        return ""
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))


_FRAMEWORKS = {
    "sklearn": ("sklearn", "scikit-learn"),
    "tensorflow": ("tensorflow", "tensorflow-cpu"),
}
"""Flavour → the framework in its tags, and the package; torch for all others."""


def read_framework(repository: Path, flavor: str) -> str:
    """Framework and version in the lock of a flavour, such as `torch2.13.0`, without `+cpu`.

    Raises:
        UsageRefused: the lock is missing or does not hold the framework.
    """
    name, package = _FRAMEWORKS.get(flavor, ("torch", "torch"))
    lock = repository / "docker" / f"{flavor}.lock"
    text = lock.read_text() if lock.is_file() else ""
    found = re.search(rf"^{package}==([0-9.]+)", text, flags=re.MULTILINE)
    if found is None:
        raise UsageRefused(f"docker/{flavor}.lock does not hold {package}", fix="run `make lock`")
    return f"{name}{found[1]}"

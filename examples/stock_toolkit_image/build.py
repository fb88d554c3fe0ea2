"""Builds the stock toolkit's images on this machine, with this machine's pip settings.

Usage: python examples/stock_toolkit_image/build.py [toolkit] [pytorch]     (default: both)
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from urllib.request import getproxies

from stoker.errors import StokerError
from stoker.machine.base_image import plan_base, provide_base
from stoker.machine.docker import find_builder, find_client, require_engine, run_live
from stoker.machine.failures import BuildFailed, UsageRefused
from stoker.machine.pip_settings import (
    PipSettings,
    make_pip_conf,
    read_pip_settings,
    serve_folders,
)

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
TAGS = {"toolkit": "stock-toolkit:5.1.4", "pytorch": "stock-pytorch-toolkit:3.0.0"}
"""The targets of the Dockerfile and the names their images get."""


def main(argv: list[str]) -> int:
    """Builds what is named, or everything; exit codes as those of the `stoker` command."""
    try:
        build(argv or list(TAGS))
    except StokerError as error:
        print(f"build: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageRefused) else 1
    return 0


def build(targets: list[str]) -> None:
    """Builds the images of some targets, one after the other.

    Raises:
        UsageRefused: a target that the Dockerfile does not have.
        BuildFailed: the builder's last lines have said why.
    """
    unknown = [target for target in targets if target not in TAGS]
    if unknown:
        raise UsageRefused(
            f"no such target: {', '.join(unknown)}", fix=f"name some of: {', '.join(TAGS)}"
        )
    client = find_client()
    require_engine(client)
    base = provide_base(plan_base(client, asked_for=None, repository=REPOSITORY))
    pip = read_pip_settings()
    with (
        serve_folders(pip.folders) as served,
        tempfile.TemporaryDirectory(prefix="stock-toolkit-") as secrets,
    ):
        conf = Path(secrets, "pip.conf")
        conf.touch(mode=0o600)
        conf.write_text(make_pip_conf(pip, served=served))
        for target in targets:
            _build_one(target, base=base, pip=pip, pip_conf=conf)


def _build_one(target: str, *, base: str, pip: PipSettings, pip_conf: Path) -> None:
    command = [*find_builder().argv, "--progress=plain", "--file", str(HERE / "Dockerfile")]
    command += ["--target", target, "--tag", TAGS[target], "--build-arg", f"BASE_IMAGE={base}"]
    # Only the host's network reaches what is served on the host's loopback.
    command += ["--network=host"] if pip.folders else []
    for scheme in getproxies():
        command += ["--build-arg", f"{scheme}_proxy"] if scheme in {"http", "https", "no"} else []
    command += ["--secret", f"id=pipconf,src={pip_conf}"]
    command += ["--secret", f"id=ca,src={pip.ca_bundle}"] if pip.ca_bundle else []
    finished = run_live([*command, str(REPOSITORY)])
    if finished.code != 0:
        raise BuildFailed(
            f"{TAGS[target]} was not built: the builder ended with {finished.code}",
            fix="read the last lines above; `stoker build` knows the usual causes by name",
        )
    print(f"build: {TAGS[target]} is ready", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

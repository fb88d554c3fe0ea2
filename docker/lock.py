"""Make the hash-locked requirements of images and developers: `python docker/lock.py [NAME…]`.

Reads docker/NAME.in and writes docker/NAME.lock with uv, for the Python and the platform of the
image and from the sources pip on this machine is configured for. Versions already in a lock are
kept unless `--upgrade` is given. No address and no path of this machine gets into a lock.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from stoker.machine.pip_settings import PipSettings, read_pip_settings

DOCKER = Path(__file__).resolve().parent
FLAVORS = ("cpu", "cuda", "sklearn", "tensorflow")
NAMES = ("build", "toolkit", "smdebug", "torchvision", "tf_keras", *FLAVORS, "dev", "frameworks")
# Installed with --no-deps: what they need is listed by hand, in common.in or next to them.
ALONE = ("toolkit", "smdebug", "torchvision", "sklearn", "tf_keras")
# Installed with --no-deps next to a torch that the machine already has (installed-before.txt).
WITHOUT_TORCH = ("frameworks",)
PYTHON = "3.11"
PLATFORM = "x86_64-manylinux_2_28"
HEADER = "# Made by `make lock` from docker/{name}.in; do not edit.\n"
_TIMEOUT_SECONDS = 900


def main(argv: list[str] | None = None) -> int:
    """Lock every file, or those named."""
    parser = argparse.ArgumentParser(description="Make docker/*.lock from docker/*.in.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {' '.join(NAMES)}")
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions")
    args = parser.parse_args(argv)
    if unknown := sorted(set(args.names) - set(NAMES)):
        parser.error(f"no such lock: {', '.join(unknown)}; there are: {', '.join(NAMES)}")
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        print("lock: uv is not installed\n  fix: pip install uv", file=sys.stderr)
        return 3
    settings = read_pip_settings()
    for name in args.names or NAMES:
        print(f"lock: docker/{name}.lock", flush=True)
        command = make_command(uv, name, settings=settings, upgrade=args.upgrade)
        done = subprocess.run(command, cwd=DOCKER, timeout=_TIMEOUT_SECONDS, check=False)
        if done.returncode != 0:
            print(f"lock: docker/{name}.in has no solution here, see above", file=sys.stderr)
            return 3
        lock = DOCKER / f"{name}.lock"
        text = add_given_hashes(lock.read_text(), (DOCKER / f"{name}.in").read_text())
        lock.write_text(HEADER.format(name=name) + text)
    return 0


def add_given_hashes(lock: str, wanted: str) -> str:
    """The lock with the hashes that its input gives by hand, for files no index here offers."""
    for pin, given in re.findall(r"^(\S+==\S+) (--hash=sha256:\w{64})$", wanted, flags=re.M):
        # uv keeps a hash that is in the lock already.
        if given not in lock:
            lock = lock.replace(f"{pin} \\\n", f"{pin} \\\n    {given} \\\n")
    return lock


def make_command(uv: str, name: str, *, settings: PipSettings, upgrade: bool) -> list[str]:
    """The uv command that makes one lock."""
    command = [uv, "pip", "compile", f"{name}.in", "--output-file", f"{name}.lock", "--quiet"]
    command += ["--generate-hashes", "--python-version", PYTHON, "--python-platform", PLATFORM]
    command += ["--no-header", "--no-emit-index-url", "--no-emit-find-links"]
    # As pip does it: the best version over all sources, not the first source that knows the name.
    command += ["--index-strategy", "unsafe-best-match", "--system-certs"]
    command += ["--no-deps"] if name in ALONE else []
    command += ["--excludes", "installed-before.txt"] if name in WITHOUT_TORCH else []
    command += ["--upgrade"] if upgrade else []
    return [*command, *list_sources(settings)]


def list_sources(settings: PipSettings) -> list[str]:
    """Where pip on this machine looks, in uv's words."""
    index = settings.options.get("index-url")
    words = ["--default-index", index] if index else []
    for url in settings.indexes:
        words += ["--index", url]
    for source in (*settings.links, *map(str, settings.folders)):
        words += ["--find-links", source]
    return words


if __name__ == "__main__":
    sys.exit(main())

"""Make the environments of stock clients: `python docker/sdk_venv.py [NAME …] [--lock]`.

The host needs none; tests and benchmarks run stock code as a user has it. SageMaker's two SDKs
have an environment each, `.venv-sdk-v2` and `.venv-sdk-v3` (which has MLflow 3), because they
exclude each other; the AWS CLI and s3fs are in `.venv-sdk-cli`, MLflow 2 in
`.venv-sdk-mlflow2`. Safe to run any number of times: an environment is made
again only when its lock has changed.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from lock import list_sources, make_command

from stoker.machine.pip_settings import PipSettings, read_pip_settings

REPOSITORY = Path(__file__).resolve().parents[1]
LOCKS = REPOSITORY / "tests/data/sdks"
NAMES = ("v2", "v3", "cli", "mlflow2")
_HEADER = "# Made by `python docker/sdk_venv.py --lock` from {name}.in; do not edit.\n"
_TIMEOUT_SECONDS = 1800


def main(argv: list[str] | None = None) -> int:
    """Make all, or those named."""
    parser = argparse.ArgumentParser(description="Make .venv-sdk-v2, -v3, -cli and -mlflow2.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {' '.join(NAMES)}")
    parser.add_argument("--lock", action="store_true", help="renew the hash locks instead")
    args = parser.parse_args(argv)
    if unknown := sorted(set(args.names) - set(NAMES)):
        parser.error(f"no such SDK: {', '.join(unknown)}; there are: {', '.join(NAMES)}")
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        print("sdk_venv: uv is not installed\n  fix: pip install uv", file=sys.stderr)
        return 3
    settings = read_pip_settings()
    for name in args.names or NAMES:
        done = make_lock(uv, name, settings) if args.lock else make_venv(uv, name, settings)
        if not done:
            print(f"sdk_venv: {name} could not be made, see above", file=sys.stderr)
            return 3
    return 0


def make_lock(uv: str, name: str, settings: PipSettings) -> bool:
    """Resolve tests/data/sdks/NAME.in for the image's Python and platform."""
    command = make_command(uv, name, settings=settings, upgrade=True)
    if not _run(command, cwd=LOCKS):
        return False
    lock = LOCKS / f"{name}.lock"
    lock.write_text(_HEADER.format(name=name) + lock.read_text())
    return True


def make_venv(uv: str, name: str, settings: PipSettings) -> bool:
    """Install a lock, by its hashes; nothing to do where that was done before."""
    venv = REPOSITORY / f".venv-sdk-{name}"
    # Test workers ask for the same environment at the same moment: one makes it, the others wait.
    with venv.with_suffix(".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        return _make_locked(uv, name, venv, settings)


def _make_locked(uv: str, name: str, venv: Path, settings: PipSettings) -> bool:
    lock = LOCKS / f"{name}.lock"
    stamp_file = venv / "stamp"
    stamp = f"{sys.version} {hashlib.sha256(lock.read_bytes()).hexdigest()}"
    if stamp_file.is_file() and stamp_file.read_text() == stamp:
        return True
    print(f"setting up {venv.name} (a minute or two)", flush=True)
    install = [uv, "pip", "install", "--quiet", "--python", str(venv / "bin/python")]
    install += ["--require-hashes", "-r", str(lock), "--index-strategy", "unsafe-best-match"]
    install += ["--system-certs", *list_sources(settings)]
    # Compiled now: else the first import takes ten times as long, in a test that is being timed.
    install += ["--compile-bytecode"]
    made = _run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(venv)])
    if not (made and _run(install)):
        return False
    stamp_file.write_text(stamp)  # last: half an environment is made again
    return True


def _run(command: list[str], cwd: Path = REPOSITORY) -> bool:
    done = subprocess.run(command, cwd=cwd, timeout=_TIMEOUT_SECONDS, check=False)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())

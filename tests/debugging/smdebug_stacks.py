"""The tour under other versions of what smdebug stands on: `make stacks`.

Each stack is a folder with the named packages, put before those of the environment. The results
of the tour must be those of the environment as it is. `--python PATH` takes another Python, which
must have torch and smdebug's dependencies.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.smdebug_wheels import make_wheels

TOUR = Path(__file__).with_name("smdebug_tour.py")
STACKS = (
    ("protobuf==3.20.3",),  # the oldest that smdebug asks for
    ("protobuf==4.25.8",),
    ("protobuf==5.29.5",),
    ("protobuf==6.33.5",),
    ("protobuf==7.36.2",),
    ("numpy==2.0.2",),
    ("numpy==2.2.6",),
    ("numpy==2.0.2", "protobuf==5.29.5"),
)
TIMEOUT_SECONDS = 600


def main() -> int:
    parser = argparse.ArgumentParser(description="The tour of smdebug under other versions.")
    parser.add_argument("--python", default=sys.executable, metavar="PATH")
    python = parser.parse_args().python
    with tempfile.TemporaryDirectory(prefix="stoker-stacks-") as name:
        folder = Path(name)
        wheel = make_wheels(folder)[2]
        expected = tour(python, wheel, folder / "as-it-is", ())
        print(f"as it is: {versions(python)}", flush=True)
        failed = 0
        for stack in STACKS:
            same = tour(python, wheel, folder / "-".join(stack), stack) == expected
            failed += not same
            print(f"{'ok      ' if same else 'DIFFERS '} {' '.join(stack)}", flush=True)
    return int(failed > 0)


def tour(python: str, wheel: Path, folder: Path, stack: tuple[str, ...]) -> object:
    """What the tour saw, or how it failed."""
    packages = folder / "packages"
    (folder / "out").mkdir(parents=True)
    if stack:
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps"]
        subprocess.run([*pip, "--target", packages, *stack], check=True, timeout=TIMEOUT_SECONDS)
    done = subprocess.run(
        [python, TOUR, wheel, folder / "out", folder / "seen.json"],
        env={**os.environ, "PYTHONPATH": str(packages), "SMDEBUG_LOG_LEVEL": "error"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        return done.stderr
    seen = json.loads((folder / "seen.json").read_text())
    used = {f"{name}=={version}" for name, version in seen.pop("stack").items()}
    assert used >= set(stack), f"{stack} was not used, but {used}"
    return seen


def versions(python: str) -> str:
    names = ("torch", "numpy", "protobuf")
    code = f"""
import importlib.metadata, platform
found = [name + " " + importlib.metadata.version(name) for name in {names}]
print("Python", platform.python_version(), *found)
"""
    return subprocess.check_output([python, "-c", code], text=True).strip()


if __name__ == "__main__":
    sys.exit(main())

"""Print pip constraints that hold the packages named in a file at their installed versions.

Usage: python constraints.py protected.txt > constraints.txt

Standard library only; runs inside the image while it is built.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.metadata import distributions
from pathlib import Path


def main(argv: Sequence[str]) -> int:
    """Read the list of protected packages, print the constraints."""
    if len(argv) != 2:
        print("usage: constraints.py protected.txt", file=sys.stderr)
        return 2
    installed = {normalized(dist.metadata["Name"]): dist.version for dist in distributions()}
    lines = make_constraints(Path(argv[1]).read_text().splitlines(), installed)
    print("# Made when the image was built: what a requirements.txt may not replace.")
    print("\n".join(lines))
    return 0


def make_constraints(protected: Sequence[str], installed: Mapping[str, str]) -> list[str]:
    """One constraint per protected package; a bare name that is not installed gives none."""
    lines: list[str] = []
    for line in protected:
        entry = line.partition("#")[0].strip()
        if not entry:
            continue
        if not re.fullmatch(r"[\w.*-]+", entry):
            specifier, _, needed = entry.partition(" if ")
            if not needed or normalized(needed) in installed:
                lines.append(specifier)
            continue
        names = sorted(name for name in installed if fnmatchcase(name, normalized(entry)))
        lines += [f"{name}=={installed[name]}" for name in names]
    return lines


def normalized(name: str) -> str:
    """The name of a distribution as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main(sys.argv))

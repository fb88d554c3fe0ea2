"""Print the SHA-256 of every wheel that pip has installed: `HASH NAME==VERSION`, one a line.

Usage: python wheel_hashes.py REPORT... > wheels.sha256   (pip install --report REPORT)

Standard library only; runs while the image is built. docker/steps/sbom.py reads the lines.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path


def main(argv: Sequence[str]) -> int:
    """Read pip's reports, print the hashes."""
    installed = [
        item for path in argv[1:] for item in json.loads(Path(path).read_text())["install"]
    ]
    for item in installed:
        sha256 = item["download_info"]["archive_info"]["hashes"]["sha256"]
        print(f"{sha256} {item['metadata']['name']}=={item['metadata']['version']}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))

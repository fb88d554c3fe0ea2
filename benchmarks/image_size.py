"""The size of our images compared with AWS's own PyTorch training images.

Usage: python benchmarks/image_size.py [--json]

The peers' sizes are AWS's published baselines for its PyTorch 2.10 training images (7,200 MB and
28,000 MB); they are too large to be pulled for a benchmark. Ours are asked of the engine. A
flavour that is not built is left out, and said so.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from stoker.errors import StokerError
from stoker.machine.docker import find_client, image_size_bytes

PEER_GB = {"cpu": 7.2, "cuda": 28.0}
GOAL_GB = {"cpu": 1.6, "cuda": 5.6}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, then print a table or JSON."""
    parser = argparse.ArgumentParser(description="Size of our images compared with AWS's own.")
    parser.add_argument("--json", action="store_true", help="print figures for `make bench`")
    args = parser.parse_args(argv)
    try:
        figures = measure()
    except StokerError as error:
        print(f"image_size: {error}", file=sys.stderr)
        return 3
    print(json.dumps({"figures": figures}) if args.json else render(figures))
    return 0


def measure() -> list[dict[str, str | float]]:
    """One figure per flavour that is built."""
    client = find_client()
    figures: list[dict[str, str | float]] = []
    for flavor, peer in PEER_GB.items():
        size_bytes = image_size_bytes(client, f"stoker:{flavor}")
        if size_bytes is None:
            print(f"image_size: stoker:{flavor} is not built, left out", file=sys.stderr)
            continue
        ours = size_bytes / 1e9
        figures.append(
            {
                "name": f"image size, {flavor}",
                "ours": round(ours, 3),
                "peer": peer,
                "unit": "GB",
                "ratio": round(ours / peer, 4),
                "goal": round(GOAL_GB[flavor] / peer, 4),
            }
        )
    return figures


def render(figures: Sequence[dict[str, str | float]]) -> str:
    """The figures as a table."""
    row = "{:<18} {:>9} {:>9} {:>7} {:>7}"
    lines = [row.format("", "ours", "AWS", "ratio", "goal")]
    for figure in figures:
        ours, peer = (f"{figure[key]:.2f} GB" for key in ("ours", "peer"))
        ratio, goal = (f"{figure[key]:.3f}" for key in ("ratio", "goal"))
        lines.append(row.format(figure["name"], ours, peer, ratio, goal))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

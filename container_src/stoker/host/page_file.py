"""A page, written where the user asked for it."""

from __future__ import annotations

import sys
from pathlib import Path

from stoker.host.failures import UsageRefused
from stoker.host.terminal import make_size


def write_page(file: Path, page: str) -> None:
    """Writes it and says so on stderr: stdout may be piped.

    Raises:
        UsageRefused: it cannot be written there.
    """
    try:
        file.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UsageRefused(
            f"{file} cannot be written: {error.strerror}", fix="--html FILE, in a folder of yours"
        ) from error
    print(f"{file}: {make_size(len(page.encode()))}; open it in a browser", file=sys.stderr)

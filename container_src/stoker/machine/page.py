"""Pages that a command writes where the user asked for them."""

from __future__ import annotations

import sys
from pathlib import Path

from stoker.machine.failures import UsageRefused
from stoker.machine.units import show_size


def write_page(file: Path, page: str) -> None:
    """Writes it and says so on stderr: stdout may be piped.

    Raises:
        UsageRefused: it cannot be written there.
    """
    try:
        file.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UsageRefused(
            f"{file} cannot be written: {error.strerror}", fix="pass --html FILE in another folder"
        ) from error
    print(f"{file}: {show_size(len(page.encode()))}; open it in a browser", file=sys.stderr)

"""Files for people that a command writes where the user asked for them."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

from stoker.machine.failures import UsageRefused
from stoker.machine.units import show_size


def write_page(file: Path, page: str) -> None:
    """Writes it and says so on stderr: stdout may be piped.

    Raises:
        UsageRefused: it cannot be written there.
    """
    _write(file, page.encode(), option="--html", advice="open it in a browser")


def write_trace(file: Path, trace: str) -> None:
    """The same for a trace; it is packed if the file's name ends with `.gz`.

    Raises:
        UsageRefused: it cannot be written there.
    """
    content = gzip.compress(trace.encode(), 6) if file.suffix == ".gz" else trace.encode()
    _write(file, content, option="--trace", advice="open it at ui.perfetto.dev")


def _write(file: Path, content: bytes, *, option: str, advice: str) -> None:
    try:
        file.write_bytes(content)
    except OSError as error:
        raise UsageRefused(
            f"{file} cannot be written: {error.strerror}",
            fix=f"pass {option} FILE in another folder",
        ) from error
    print(f"{file}: {show_size(len(content))}; {advice}", file=sys.stderr)

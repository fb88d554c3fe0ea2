"""Pages in one file that open offline: style, program and data together."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any, Literal

from stoker import __version__
from stoker.machine.failures import UsageRefused
from stoker.machine.terminal import make_size


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


_PARTS = Path(__file__).with_name("pages")


def make_page(name: Literal["plot", "view"], *, title: str, facts: Mapping[str, Any]) -> str:
    """The whole page as HTML.

    Args:
        name: of its style and program, which lie in `pages`.
        title: of the page.
        facts: what the program gets to draw, as JSON.
    """
    style, program, body = (
        (_PARTS / f"{name}.{kind}").read_text("utf-8") for kind in ("css", "js", "html")
    )
    # `</script>` in a name of the user's would end the data; so no `<` in it.
    data = json.dumps({**facts, "version": __version__}, allow_nan=False, separators=(",", ":"))
    safe = data.replace("<", "\\u003c")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title>"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{style}</style></head><body>{body}"
        f'<script type="application/json" id="facts">{safe}</script>'
        f"<script>{program}</script></body></html>\n"
    )

"""A page in one file that opens offline: theme, style, body, data and script together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from pathlib import Path
from string import Template
from typing import Any

_HERE = Path(__file__).parent


def make_page(
    template: Path, *, title: str, facts: Mapping[str, Any] | None = None, **parts: str
) -> str:
    """The whole page as HTML.

    Args:
        template: the HTML of the body, with `$title` and a `$name` for each part. A style
            (`.css`) and a script (`.js`) of the same name next to it become part of the page;
            theme.css and script.js here come first.
        title: of the page.
        facts: what the script reads, as JSON in the element `facts`.
        parts: HTML in place of the names in the template.
    """
    style = (_HERE / "theme.css").read_text("utf-8") + _read_optional(template.with_suffix(".css"))
    body = Template(template.read_text("utf-8")).substitute(parts, title=escape(title))
    shell = Template((_HERE / "shell.html").read_text("utf-8"))
    return shell.substitute(
        title=escape(title),
        style=style,
        body=body,
        scripts=_make_scripts(facts, _read_optional(template.with_suffix(".js"))),
    )


def _make_scripts(facts: Mapping[str, Any] | None, script: str) -> str:
    made = ""
    if facts is not None:
        # `</script>` in a name of the user's would end the data; so no `<` in it.
        data = json.dumps(facts, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
        made = f'<script type="application/json" id="facts">{data}</script>\n'
    shared = (_HERE / "script.js").read_text("utf-8")
    return made + (f"<script>\n{shared}{script}</script>\n" if script else "")


def _read_optional(file: Path) -> str:
    return file.read_text("utf-8") if file.exists() else ""

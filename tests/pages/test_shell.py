"""A page is one file, whatever the texts in it contain."""

from __future__ import annotations

import json
import re

from stoker.pages.shell import make_page


def test_a_page_has_its_style_behind_the_theme_and_its_script_behind_the_data(tmp_path):
    template = tmp_path / "thing.html"
    template.write_text("<h1>$title</h1><p>$said</p>")
    template.with_suffix(".css").write_text("p { color: var(--ink); }")
    template.with_suffix(".js").write_text("const cost = `${1}$title`;")
    facts = {"name": "</script><b>", "cost": "$title"}
    page = make_page(template, title="a <b> & $said", facts=facts, said="costs $title")
    assert page.startswith("<!doctype html>")
    assert page.count("a &lt;b&gt; &amp; $said") == 2
    assert "<p>costs $title</p>" in page
    assert page.index("--ink: #") < page.index("p { color: var(--ink); }") < page.index("</style>")
    data = re.search(r'id="facts">(.*?)</script>\n<script>\n(.*?)</script>', page, re.DOTALL)
    assert json.loads(data[1]) == facts
    assert data[2].startswith('"use strict";')
    assert data[2].endswith("\nconst cost = `${1}$title`;")


def test_a_page_without_data_has_no_script(tmp_path):
    template = tmp_path / "plain.html"
    template.write_text("nothing moves")
    assert "<script" not in make_page(template, title="t")

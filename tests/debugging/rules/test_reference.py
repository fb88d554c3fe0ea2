"""The page about the rules says what the rules say of themselves."""

from __future__ import annotations

import pytest

from stoker.debugging.rules import CATALOGUE
from tests.debugging.rules.reference import FILE, make_reference, make_section


def test_the_page_is_up_to_date():
    assert FILE.read_text() == make_reference(), "python -m tests.debugging.rules.reference"


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_page_has_every_rule_with_every_parameter_and_its_default(name):
    section = make_section(CATALOGUE[name])
    assert section in FILE.read_text()
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == len(CATALOGUE[name].parameters)
    for row, declared in zip(rows, CATALOGUE[name].parameters.values(), strict=True):
        assert row.startswith(f"| {declared.name} |")
        assert ("not set" in row) == (declared.default is None)

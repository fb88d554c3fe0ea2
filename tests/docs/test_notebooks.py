"""The example notebooks as they are checked in: with outputs, small, and of no machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples/notebooks").glob("*.ipynb"))
LARGEST_BYTES = 120_000


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_has_been_run_from_top_to_bottom_and_is_small(notebook):
    text = notebook.read_text()
    code = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert any("image/png" in json.dumps(cell["outputs"]) for cell in code)
    assert "Traceback" not in text
    assert not any(f'"{place}' in text or f" {place}" in text for place in ("/tmp/", "/work/"))
    assert len(text) <= LARGEST_BYTES

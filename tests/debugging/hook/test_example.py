"""The example of the debugger shows what it says."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "examples/by_feature/debugger.py"


def test_the_example_finds_the_vanishing_gradient(tmp_path, capsys):
    runpy.run_path(str(EXAMPLE))["main"](str(tmp_path))
    first = [float(x) for x in re.findall(r"first layer (\S+),", capsys.readouterr().out)]
    sigmoid, relu = first
    assert sigmoid < 1e-7
    assert relu > 1000 * sigmoid

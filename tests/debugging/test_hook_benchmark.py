"""Which functions benchmarks/debug_hook.py counts as ours, whatever the checkout is called."""

from __future__ import annotations

import sys
from pathlib import Path

import stoker

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def test_time_is_counted_by_package_and_not_by_the_name_of_the_checkout(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    import debug_hook

    def count(file):
        space = {}
        exec(compile("def work():\n    sum(range(99_999))", str(file), "exec"), space)
        parts = debug_hook._counted(debug_hook.Parts(space["work"]), "stoker")
        parts.step()
        return parts.counted()[0]

    assert count(Path(stoker.__file__).parent / "debugging/hook/attach.py") > 0
    assert count(tmp_path / "stoker/.venv/lib/python3.11/site-packages/torch/nn.py") == 0

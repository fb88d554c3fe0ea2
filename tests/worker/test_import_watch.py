"""What waits for a module is told once it is there, however it was looked for before."""

from __future__ import annotations

import importlib
import importlib.util
import sys

import pytest

from stoker.worker.import_watch import call_after_import


@pytest.fixture
def module(tmp_path, monkeypatch) -> str:
    (tmp_path / "watched_module.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    finders = list(sys.meta_path)
    yield "watched_module"
    sys.modules.pop("watched_module", None)
    assert sys.meta_path == finders


def test_a_module_that_was_only_looked_for_is_still_waited_for(module):
    told = []
    call_after_import(module, lambda: told.append(sys.modules[module].value))
    # transformers, lightning and others do this before they import torch.
    assert importlib.util.find_spec(module) is not None
    assert importlib.util.find_spec(module) is not None
    assert told == []
    importlib.import_module(module)
    assert told == [1]


def test_several_may_wait_for_one_module(module):
    told = []
    for name in ("one", "other"):
        call_after_import(module, lambda name=name: told.append(name))
    importlib.util.find_spec(module)
    importlib.import_module(module)
    assert sorted(told) == ["one", "other"]


def test_a_module_that_cannot_be_loaded_is_waited_for_in_vain(module, tmp_path):
    (tmp_path / "watched_module.py").write_text("raise ValueError\n")
    call_after_import(module, lambda: pytest.fail("it is not there"))
    with pytest.raises(ValueError, match=r"^$"):
        importlib.import_module(module)


def test_a_module_that_is_not_there_can_come_later(module, tmp_path):
    told = []
    file = tmp_path / "watched_module.py"
    file.rename(tmp_path / "hidden")
    call_after_import(module, lambda: told.append(True))
    assert importlib.util.find_spec(module) is None
    (tmp_path / "hidden").rename(file)
    importlib.invalidate_caches()
    importlib.import_module(module)
    assert told == [True]

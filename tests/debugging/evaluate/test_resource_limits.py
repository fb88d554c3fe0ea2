"""What the evaluator may take of the memory."""

from __future__ import annotations

import os

import pytest

from stoker.debugging.evaluate import resource_limits as resource_limits
from stoker.debugging.evaluate.resource_limits import memory_share_bytes

MACHINE_BYTES = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(resource_limits, "LEAST_MEMORY_BYTES", 1 << 20)


def test_it_is_a_fourth_of_what_the_container_has(tmp_path):
    (tmp_path / "memory.max").write_text(f"{64 << 20}\n")
    assert memory_share_bytes([str(tmp_path / "memory.max"), "/nowhere"]) == 16 << 20


@pytest.mark.parametrize("content", ["max\n", "9223372036854771712\n", "", None])
def test_without_a_limit_it_is_a_fourth_of_the_machine(tmp_path, content):
    file = tmp_path / "memory.max"
    if content is not None:
        file.write_text(content)
    assert memory_share_bytes([str(file)]) == MACHINE_BYTES // 4


def test_it_is_enough_to_start_with_however_small_the_container(tmp_path):
    (tmp_path / "memory.max").write_text("4096")
    assert memory_share_bytes([str(tmp_path / "memory.max")]) == 1 << 20

"""The catalogue: every rule by its API name, loaded when it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from stoker.debugging.profiler_rules import EXTENSIONS, PROFILER_CATALOGUE, SERVICE_RULES
from stoker.debugging.rule import Rule
from stoker.debugging.rules import CATALOGUE

EVERY = {**CATALOGUE, **PROFILER_CATALOGUE}


@pytest.mark.parametrize("name", EVERY)
def test_a_rule_is_a_class_of_its_api_name_that_explains_itself(name):
    rule = EVERY[name]
    assert issubclass(rule, Rule)
    assert rule.__name__ == name
    summary, _, rest = (rule.__doc__ or "").partition("\n\n")
    assert summary.endswith(".")
    assert "\n" not in summary
    assert "Fires " in rest or "never fires" in summary
    assert all(declared.help for declared in rule.parameters.values())


def test_names_are_sorted_and_unknown_ones_are_missing():
    assert list(CATALOGUE) == sorted(CATALOGUE)
    assert list(PROFILER_CATALOGUE) == sorted(PROFILER_CATALOGUE)
    assert set(PROFILER_CATALOGUE) == {*SERVICE_RULES, *EXTENSIONS, "ProfilerReport"}
    assert len(CATALOGUE) == len(set(CATALOGUE))
    assert "AllZero" in CATALOGUE
    assert "AllOne" not in CATALOGUE
    with pytest.raises(KeyError):
        CATALOGUE["AllOne"]


def test_to_list_the_names_loads_no_rule_and_no_numpy():
    program = (
        "import sys\n"
        "from stoker.debugging.rules import CATALOGUE\n"
        "assert 'VanishingGradient' in list(CATALOGUE)\n"
        "loaded = [m for m in sys.modules if m.startswith('stoker.debugging.rules.')]\n"
        "assert not loaded and 'numpy' not in sys.modules, loaded\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=240)

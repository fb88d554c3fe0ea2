"""The probes exist in both languages, and their shell is one that any sh reads."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from stoker.conformance import probe
from stoker.conformance.check import NotApplicable
from stoker.conformance.checks import GROUPS
from stoker.conformance.script import SHELL_FILE, Script, program_name, spell

SCRIPTS = [
    script
    for module in (*GROUPS, probe)
    for script in vars(module).values()
    if isinstance(script, Script)
]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.sh)
def test_a_probe_has_its_function_in_the_shell_file(script):
    assert re.search(rf"^{script.sh}\(\) {{", SHELL_FILE.read_text(), re.MULTILINE)
    assert spell(script, "sh").rstrip().endswith(f'{script.sh} "$@"')
    assert spell(script, "python") == script.python


def test_every_function_of_the_shell_file_is_used():
    text = SHELL_FILE.read_text()
    for name in re.findall(r"^(\w+)\(\) {", text, re.MULTILINE):
        is_probe = any(script.sh == name for script in SCRIPTS)
        assert is_probe or len(re.findall(rf"\b{name}\b", text)) > 1, name


@pytest.mark.parametrize("shell", ["sh", "dash", "bash"])
def test_a_shell_can_read_the_file(shell):
    if not shutil.which(shell):
        pytest.skip(f"no {shell} on this machine")
    subprocess.run([shell, "-n", SHELL_FILE], check=True, timeout=30)


def test_a_script_in_python_only_does_not_apply_without_it():
    with pytest.raises(NotApplicable, match="no Python in the image"):
        spell("print('hello')", "sh")
    assert spell("", "sh") == ""
    assert program_name("sh") == "probe.sh"
    assert program_name("none") == "probe.py"

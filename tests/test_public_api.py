"""What a script may use, and what `import stoker` costs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

import stoker


def modules_after(code: str) -> set[str]:
    """Names of the modules a fresh process has loaded after running some code."""
    ended = subprocess.run(
        # Without site: what its .pth files import is not our cost.
        [
            sys.executable,
            "-IS",
            "-c",
            f"import sys; sys.path[:0] = {sys.path!r}; {code}; print(*sys.modules)",
        ],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    return set(ended.stdout.split())


def test_all_is_sorted_and_without_doubles():
    assert list(stoker.__all__) == sorted(set(stoker.__all__))


@pytest.mark.parametrize("name", stoker.__all__)
def test_every_public_name_resolves(name):
    assert getattr(stoker, name) is not None


@pytest.mark.parametrize("name", stoker.__all__)
def test_every_public_name_is_documented(name):
    if name.startswith("__"):
        return
    assert getattr(stoker, name).__doc__


def test_a_star_import_gives_exactly_the_public_names():
    scope: dict[str, object] = {}
    exec("from stoker import *", scope)
    assert scope.keys() - {"__builtins__"} == set(stoker.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'stoker' has no attribute 'nonsense'"):
        _ = stoker.nonsense


def test_importing_stoker_loads_nothing_a_worker_did_not_ask_for():
    added = modules_after("import stoker") - modules_after("pass")
    assert not added & {"torch", "json", "dataclasses", "typing", "re", "pathlib"}
    assert added == {"stoker", "__future__"}


def test_reading_a_job_does_not_load_torch_or_what_only_params_need():
    loaded = modules_after("import stoker; stoker.job(root=__import__('pathlib').Path('/none'))")
    assert "stoker.contract.job" in loaded
    assert not loaded & {"torch", "boto3", "dataclasses", "difflib", "stoker.contract.params"}


def test_the_launcher_starts_without_what_only_some_jobs_need():
    loaded = modules_after("import stoker.runtime.entry")
    late = {"torch", "boto3", "dataclasses", "typing", "tempfile", "traceback", "subprocess"}
    assert not loaded & {*late, "difflib", "stoker.runtime.diagnosis", "stoker.contract.params"}


def test_the_version_is_a_version():
    assert all(part.isdigit() for part in stoker.__version__.split("."))

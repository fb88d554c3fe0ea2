"""Imports point down only (docs: DESIGN, "Layers"), also those inside functions.

host   runtime   autoload   script_job                                      compose
checkpoints  metrics  distributed  debugging  profiling  tracking  tuning   never each other
contract  errors                                                            standard library
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "container_src/stoker"
FILES = sorted(SOURCE.rglob("*.py"))

CAPABILITIES = {
    *("checkpoints", "metrics", "distributed", "debugging", "profiling", "tracking", "tuning"),
}
BOTTOM = {"contract", "errors"}
# Part of the package → the parts it may import, beside itself.
MAY_IMPORT = {
    "errors": set(),
    "contract": {"errors"},
    **{capability: BOTTOM for capability in CAPABILITIES},
    "runtime": {"stoker", *BOTTOM},
    "import_watch": set(),
    "autoload": {"stoker", "import_watch", *BOTTOM, *CAPABILITIES},
    "host": {"stoker", *BOTTOM, *CAPABILITIES},
    "script_job": {*BOTTOM, *CAPABILITIES},
    "stoker": {"script_job", *BOTTOM, *CAPABILITIES},
}
STANDARD_LIBRARY_ONLY = {
    *("stoker", "script_job", "contract", "errors", "runtime", "autoload", "import_watch"),
}
AWS = {"boto3", "botocore"}
# The platform plays the service: it needs the service's model and speaks S3 to its own server.
MAY_USE_AWS = {
    "host/platform/around/storage.py",
    "host/platform/wire/service_model.py",
}
# Outside contract: handed on as it is, or set by ourselves for this very file.
MAY_READ_ENVIRONMENT = {"autoload.py", "runtime/install.py", "host/environment.py"}


class Import(NamedTuple):
    module: str
    line: int


def part_of(file: Path) -> str:
    """Which part of the package a file belongs to; `stoker` is the package's own __init__."""
    first = file.relative_to(SOURCE).parts[0].removesuffix(".py")
    return "stoker" if first == "__init__" else first


def imports_of(file: Path) -> list[Import]:
    """Every import of a file, wherever it stands, with absolute names."""
    package = ("stoker", *file.relative_to(SOURCE).parent.parts)
    found = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found += [Import(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join((*above, *([node.module] if node.module else [])))
            # `from stoker import contract` names a part, `from stoker import job` a value.
            found += [Import(_resolved(base, alias.name), node.lineno) for alias in node.names]
    return found


def _resolved(base: str, name: str) -> str:
    parts = base.split(".")
    if parts[0] == "stoker":
        target = SOURCE.joinpath(*parts[1:], name)
        if target.is_dir() or target.with_suffix(".py").is_file():
            return f"{base}.{name}"
    return base


def named(file: Path) -> str:
    return str(file.relative_to(SOURCE))


@pytest.mark.parametrize("file", FILES, ids=named)
def test_imports_point_down_only(file):
    here = part_of(file)
    assert here in MAY_IMPORT, f"{here} is in no layer: give it one in MAY_IMPORT"
    allowed = MAY_IMPORT[here] | {here}
    wrong = [
        f"line {line}: {module}"
        for module, line in imports_of(file)
        if module.split(".")[0] == "stoker" and [*module.split("."), "stoker"][1] not in allowed
    ]
    assert not wrong, f"{here} may import {sorted(allowed)} only"


@pytest.mark.parametrize("file", FILES, ids=named)
def test_the_lower_layers_and_the_launcher_need_the_standard_library_only(file):
    if part_of(file) not in STANDARD_LIBRARY_ONLY:
        return
    allowed = {"stoker", *sys.stdlib_module_names}
    if named(file) == "runtime/sagemaker.py":
        allowed |= AWS
    wrong = [i for i in imports_of(file) if i.module.split(".")[0] not in allowed]
    assert not wrong


@pytest.mark.parametrize("file", FILES, ids=named)
def test_aws_is_called_from_files_named_for_it_only(file):
    if file.name == "sagemaker.py" or named(file) in MAY_USE_AWS:
        return
    assert not [i for i in imports_of(file) if i.module.split(".")[0] in AWS]


@pytest.mark.parametrize("file", FILES, ids=named)
def test_the_host_never_imports_torch(file):
    if part_of(file) != "host":
        return
    heavy = {"torch", "torchvision", "smdebug", "tensorboard"}
    assert not [i for i in imports_of(file) if i.module.split(".")[0] in heavy]


@pytest.mark.parametrize("file", FILES, ids=named)
def test_the_environment_is_read_in_the_contract_only(file):
    if part_of(file) == "contract" or named(file) in MAY_READ_ENVIRONMENT:
        return
    names = {"environ", "environb", "getenv", "getenvb", "putenv"}
    wrong = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Attribute) and node.attr in names:
            if isinstance(node.value, ast.Name) and node.value.id == "os":
                wrong.append(node.lineno)
        elif isinstance(node, ast.ImportFrom) and node.module == "os":
            wrong += [node.lineno for alias in node.names if alias.name in names]
    assert not wrong, f"lines {wrong}: take it from the Job"


@pytest.mark.parametrize("file", FILES, ids=named)
def test_nothing_is_done_at_import(file):
    """Only definitions, and calls that make a value: no statement at the top that just acts."""
    if named(file) == "runtime/__main__.py":
        return
    acting = [
        node.lineno
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
    ]
    assert not acting


def test_the_rules_see_an_import_wherever_it_hides(tmp_path, monkeypatch):
    folder = tmp_path / "contract"
    folder.mkdir()
    (tmp_path / "host").mkdir()
    file = folder / "x.py"
    file.write_text(
        "def f():\n    import torch.nn\n    from ..host import cli\n    from stoker import host\n"
    )
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", tmp_path)
    assert [i.module for i in imports_of(file)] == ["torch.nn", "stoker.host", "stoker.host"]

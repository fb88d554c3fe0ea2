"""Imports point down only (CONTRIBUTING, "Layers"), also those inside functions.

cli  notebook                                                          compose the host side
conformance   platform (model < data, engines < jobs < api < server)
machine                                                                no torch on the host side
runtime   worker                                                       compose the container side
checkpoints  metrics  debugging  profiling  tuning  tracking           never import each other
bus                                                                    standard library only
contract  errors                                                       standard library only
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "container_src/stoker"
FILES = sorted(SOURCE.rglob("*.py"))

CAPABILITIES = {"checkpoints", "metrics", "debugging", "profiling", "tracking", "tuning"}
BOTTOM = {"contract", "errors", "bus"}
HOST = {"machine", "platform", "conformance", "cli", "notebook", "__main__"}
# Part of the package → the parts it may import besides itself.
MAY_IMPORT = {
    "errors": set(),
    "contract": {"errors"},
    "bus": {"contract", "errors"},
    **{capability: BOTTOM for capability in CAPABILITIES},
    "runtime": {"stoker", *BOTTOM},
    "worker": {"stoker", *BOTTOM, *CAPABILITIES},
    "stoker": {"worker", *BOTTOM, *CAPABILITIES},
    "machine": {"stoker", *BOTTOM},
    "conformance": {"stoker", "machine", *BOTTOM},
    "platform": {"stoker", "machine", *BOTTOM},
    "notebook": {"cli", "machine", "platform", *BOTTOM, *CAPABILITIES},
    "cli": {"stoker", "machine", "platform", "conformance", *BOTTOM, *CAPABILITIES},
    "__main__": {"cli"},
}
# The same inside `platform`; `platform` itself is its server and its entry point.
PLATFORM_MAY_IMPORT = {
    "model": set(),
    "engines": {"model"},
    "data": {"model"},
    "jobs": {"model", "data", "engines"},
    "api": {"model", "data", "engines", "jobs"},
    "platform": {"model", "data", "engines", "jobs", "api"},
}
# `notebook` reuses the client of the command line, and nothing else of it.
CLI_PARTS_OF_NOTEBOOKS = "stoker.cli.client"
STANDARD_LIBRARY_ONLY = {"stoker", "contract", "bus", "errors", "runtime", "worker"}
AWS = {"boto3", "botocore"}
# The platform plays the service: it needs the service's model and speaks S3 to its own server.
MAY_USE_AWS = {"platform/data/storage.py", "platform/api/service_model.py"}
# Outside contract: passed on as it is, or set by ourselves for this very file.
MAY_READ_ENVIRONMENT = {"worker/autoload.py", "runtime/install.py", "machine/environment.py"}
MOST_LINES = 400
MOST_FUNCTION_LINES = 60


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
    if file.name in ("sagemaker.py", "aws.py") or named(file) in MAY_USE_AWS:
        return
    assert not [i for i in imports_of(file) if i.module.split(".")[0] in AWS]


@pytest.mark.parametrize("file", FILES, ids=named)
def test_the_host_never_imports_torch(file):
    if part_of(file) not in HOST:
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
    if named(file) in ("runtime/__main__.py", "__main__.py"):
        return
    acting = [
        node.lineno
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
    ]
    assert not acting


@pytest.mark.parametrize("file", sorted((SOURCE / "platform").rglob("*.py")), ids=named)
def test_imports_inside_the_platform_point_down_only(file):
    here = _platform_part(f"stoker.{'.'.join(file.relative_to(SOURCE).with_suffix('').parts)}")
    allowed = PLATFORM_MAY_IMPORT[here] | {here}
    wrong = [
        f"line {line}: {module}"
        for module, line in imports_of(file)
        if module.startswith("stoker.platform.") and _platform_part(module) not in allowed
    ]
    assert not wrong, f"platform/{here} may import {sorted(allowed)} only"


def _platform_part(module: str) -> str:
    parts = module.split(".")
    return parts[2] if len(parts) > 2 and parts[2] in PLATFORM_MAY_IMPORT else "platform"


def test_notebooks_use_only_the_client_of_the_command_line():
    files = sorted((SOURCE / "notebook").rglob("*.py"))
    used = {i.module for file in files for i in imports_of(file)}
    wrong = {m for m in used if m.startswith("stoker.cli") and CLI_PARTS_OF_NOTEBOOKS not in m}
    assert not wrong


def test_no_two_folders_import_each_other():
    imported = defaultdict(set)
    for file in FILES:
        here = _folder_of(".".join(("stoker", *file.relative_to(SOURCE).with_suffix("").parts)))
        imported[here] |= {
            _folder_of(i.module) for i in imports_of(file) if i.module.startswith("stoker.")
        }
    pairs = {
        tuple(sorted((a, b))) for a in imported for b in imported[a] if a in imported.get(b, ())
    }
    # The package's own folder is its public interface and errors.py, the bottom of everything.
    both_ways = {pair for pair in pairs if pair[0] != pair[1] and "stoker" not in pair}
    assert not both_ways


def _folder_of(module: str) -> str:
    path = SOURCE.joinpath(*module.split(".")[1:])
    return module if path.is_dir() else module.rpartition(".")[0]


@pytest.mark.parametrize("file", FILES, ids=named)
def test_modules_and_functions_stay_short(file):
    text = file.read_text()
    assert text.count("\n") <= MOST_LINES
    long = [
        f"{node.name}: {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno - node.lineno + 1 > MOST_FUNCTION_LINES
    ]
    assert not long


def test_the_rules_see_an_import_wherever_it_hides(tmp_path, monkeypatch):
    folder = tmp_path / "contract"
    folder.mkdir()
    (tmp_path / "cli").mkdir()
    file = folder / "x.py"
    file.write_text(
        "def f():\n    import torch.nn\n    from ..cli import main\n    from stoker import cli\n"
    )
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", tmp_path)
    assert [i.module for i in imports_of(file)] == ["torch.nn", "stoker.cli", "stoker.cli"]

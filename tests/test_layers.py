"""Imports point down only, also those inside functions; CONTRIBUTING, "Layers", draws them."""

from __future__ import annotations

import ast
import itertools
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "container_src/stoker"
# What `stoker init` writes is a user's script, not a part of the package.
FILES = sorted(file for file in SOURCE.rglob("*.py") if "cli/project" not in str(file))

CAPABILITIES = {"checkpoints", "metrics", "debugging", "profiling", "tracking", "tuning"}
BOTTOM = {"contract", "errors", "bus", "storage", "pages", "cost"}
HOST = {"machine", "platform", "conformance", "cloud", "cli", "notebook", "__main__"}
# Part of the package → the parts it may import besides itself.
MAY_IMPORT = {
    "errors": set(),
    "contract": {"errors"},
    "bus": {"contract", "errors"},
    "storage": {"errors"},
    "pages": set(),
    "cost": {"contract", "errors"},
    **{capability: BOTTOM for capability in CAPABILITIES},
    "runtime": {"stoker", *BOTTOM},
    "worker": {"stoker", *BOTTOM, *CAPABILITIES},
    "stoker": {"worker", *BOTTOM, *CAPABILITIES},
    "report": {*BOTTOM, "debugging", "metrics"},
    "machine": {"stoker", *BOTTOM},
    "conformance": {"stoker", "machine", *BOTTOM},
    "cloud": {"stoker", "machine", *BOTTOM},
    "platform": {"stoker", "machine", "tracking", "tuning", *BOTTOM},
    "notebook": {"cli", "machine", "platform", *BOTTOM, *CAPABILITIES},
    "cli": {
        *("stoker", "machine", "platform", "conformance", "cloud", "report"),
        *(*BOTTOM, *CAPABILITIES),
    },
    "__main__": {"cli"},
}
# The same inside `platform`; `platform` itself is its server and its entry point.
PLATFORM_MAY_IMPORT = {
    "model": set(),
    "s3": {"model"},
    "data": {"model", "s3"},
    "engines": {"model"},
    "jobs": {"model", "s3", "data", "engines"},
    "tuning": {"model", "s3", "data", "engines", "jobs"},
    "tracking": {"model", "s3", "data", "engines", "jobs", "tuning"},
    "api": {"model", "s3", "data", "engines", "jobs", "tuning", "tracking"},
    "platform": {*("model", "s3", "data", "engines", "jobs", "tuning", "tracking", "api")},
}
# `notebook` reuses the client of the command line, and nothing else of it.
CLI_PARTS_OF_NOTEBOOKS = "stoker.cli.client"
STANDARD_LIBRARY_ONLY = {"stoker", *BOTTOM, "runtime", "worker"}
AWS = {"boto3", "botocore"}
# Loaded only by helper processes that call AWS, and where event files are read or written.
ALSO_NEEDS = {
    "runtime/codeartifact.py": AWS,
    "storage/aws.py": AWS,
    "storage/event_records.py": {"crc32c"},
}
# Besides files named aws.py. The platform plays the service: it needs the service's model and what
# a client would sign, and speaks S3 to its own server.
MAY_USE_AWS = {
    "cloud/account.py",
    "cloud/upload/bucket.py",
    "platform/api/service_model.py",
    "platform/data/storage.py",
    "runtime/codeartifact.py",
}
# Outside contract: passed on as it is, or set by ourselves for this very file.
MAY_READ_ENVIRONMENT = {
    "worker/autoload.py",
    "worker/mlflow_run.py",
    "runtime/install.py",
    "machine/environment.py",
    "notebook/python_start/sitecustomize.py",
}
MOST_LINES = 400
MOST_FUNCTION_LINES = 60


class Import(NamedTuple):
    module: str
    line: int


def part_of(file: Path) -> str:
    """Which part of the package a file belongs to; `stoker` is the package's own __init__."""
    first = file.relative_to(SOURCE).parts[0].removesuffix(".py")
    return "stoker" if first == "__init__" else first


@cache
def imports_of(file: Path) -> list[Import]:
    """Every import of a file, wherever it stands, with absolute names."""
    package = ("stoker", *file.relative_to(SOURCE).parent.parts)
    found = []
    for node in ast.walk(tree_of(file)):
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


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def find_breaches(rule: Callable[[Path], Iterable[object]], files: Iterable[Path] = FILES) -> str:
    """Every file that breaks a rule, and where; empty if none does."""
    found = ((file, list(rule(file))) for file in files)
    return "\n".join(f"{named(file)}: {where}" for file, where in found if where)


def outside_imports(file: Path, packages: set[str]) -> list[Import]:
    return [i for i in imports_of(file) if i.module.split(".")[0] in packages]


def test_imports_point_down_only():
    def rule(file):
        here = part_of(file)
        assert here in MAY_IMPORT, f"{here} is in no layer: give it one in MAY_IMPORT"
        allowed = MAY_IMPORT[here] | {here}
        for found in outside_imports(file, {"stoker"}):
            if [*found.module.split("."), "stoker"][1] not in allowed:
                yield found, f"{here} may import {sorted(allowed)} only"

    assert not find_breaches(rule)


def test_the_lower_layers_and_the_launcher_need_the_standard_library_only():
    def rule(file):
        allowed = {"stoker", *sys.stdlib_module_names}
        allowed |= ALSO_NEEDS.get(named(file), set())
        return [i for i in imports_of(file) if i.module.split(".")[0] not in allowed]

    assert not find_breaches(rule, [f for f in FILES if part_of(f) in STANDARD_LIBRARY_ONLY])


def test_aws_is_called_from_few_files_only():
    def rule(file):
        is_for_aws = file.name == "aws.py" or named(file) in MAY_USE_AWS
        return [] if is_for_aws else outside_imports(file, AWS)

    assert not find_breaches(rule)


def test_the_host_never_imports_torch():
    heavy = {"torch", "torchvision", "smdebug", "tensorboard"}
    host = [file for file in FILES if part_of(file) in HOST]
    assert not find_breaches(lambda file: outside_imports(file, heavy), host)


def test_the_environment_is_read_in_the_contract_only():
    names = {"environ", "environb", "getenv", "getenvb", "putenv"}

    def rule(file):
        if part_of(file) == "contract" or named(file) in MAY_READ_ENVIRONMENT:
            return
        for node in ast.walk(tree_of(file)):
            used = set()
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                used = {node.attr} if node.value.id == "os" else set()
            elif isinstance(node, ast.ImportFrom) and node.module == "os":
                used = {alias.name for alias in node.names}
            if used & names:
                yield f"line {node.lineno}: take it from the Job"

    assert not find_breaches(rule)


def test_nothing_is_done_at_import():
    """Only definitions, and calls that make a value: no statement at the top that just acts."""

    def rule(file):
        if named(file) in ("runtime/__main__.py", "__main__.py"):
            return []
        return [
            f"line {node.lineno}"
            for node in tree_of(file).body
            if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
        ]

    assert not find_breaches(rule)


def test_imports_inside_the_platform_point_down_only():
    def rule(file):
        here = _platform_part(f"stoker.{'.'.join(file.relative_to(SOURCE).with_suffix('').parts)}")
        allowed = PLATFORM_MAY_IMPORT[here] | {here}
        for found in imports_of(file):
            in_platform = found.module.startswith("stoker.platform.")
            if in_platform and _platform_part(found.module) not in allowed:
                yield found, f"platform/{here} may import {sorted(allowed)} only"

    assert not find_breaches(rule, sorted((SOURCE / "platform").rglob("*.py")))


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


def test_modules_and_functions_stay_short():
    def rule(file):
        lines = file.read_text().count("\n")
        if lines > MOST_LINES:
            yield f"{lines} lines"
        for node in ast.walk(tree_of(file)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = node.end_lineno - node.lineno + 1
                if lines > MOST_FUNCTION_LINES:
                    yield f"{node.name}: {lines} lines"

    assert not find_breaches(rule)


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


@pytest.mark.parametrize("document", ["CONTRIBUTING.md", "docs/architecture/01-overview.md"])
def test_the_layers_are_drawn_as_they_are(document):
    text = (SOURCE.parents[1] / document).read_text().partition("## Layers")[2]
    parts, _, inside = text.split("```")[1].partition("inside platform:")
    words = re.findall(r"[a-z_]+", parts)
    own = MAY_IMPORT.keys() - {"stoker", "__main__"}
    assert own <= set(words)
    order = [next(word for word in line.split()) for line in parts.split("\n") if line]
    for below, above in itertools.combinations(reversed(order), 2):
        assert above not in MAY_IMPORT[below], f"{document} draws {above} above {below}"
    assert set(re.findall(r"[a-z0-9]+", inside)) == PLATFORM_MAY_IMPORT.keys() - {"platform"}


def test_the_platform_names_its_parts_from_the_lowest_to_the_highest():
    text = ast.get_docstring(tree_of(SOURCE / "platform/__init__.py"))
    assert re.findall(r"^([a-z0-9]+) {2,}", text, re.M) == list(PLATFORM_MAY_IMPORT)[:-1]

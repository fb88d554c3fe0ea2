"""Rules of the user's own: a class in a file or module of the source directory."""

from __future__ import annotations

import ast
import difflib
import hashlib
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

from stoker.contract.files import read_regular
from stoker.debugging.rule import Rule
from stoker.debugging.rule_faults import RULE_FAULTS, TooSlow, fault_text
from stoker.errors import RuleInvalid

_FORM = "name your own rule like rules/my_rule.py:LargeGradient, or my_package.rules:LargeGradient"


def load_rule(reference: str, *, folder: Path | None = None) -> type[Rule]:
    """The class that a reference names.

    Args:
        reference: `rules/my_rule.py:LargeGradient`, `my_package.rules:LargeGradient`, or the
            name of a class alone, which is then looked for in the files of the folder.
        folder: the source directory, or one file; the current directory if it is not given.

    Returns:
        A subclass of `Rule`. One of smdebug's `Rule` comes inside an adapter.

    Raises:
        RuleInvalid: no such file or class, no rule, or an error in the user's code, with its line.
    """
    place = folder or Path()
    home, _, name = reference.rpartition(":")
    if not name.isidentifier():
        raise RuleInvalid(f"{reference!r:.200} names no class", fix=_FORM)
    source_dir = place if place.is_dir() else place.parent
    if not home:
        module = _load_file(_file_with(name, place), source_dir)
    elif home.endswith(".py"):
        module = _load_file(source_dir / home, source_dir)
    else:
        module = _load_module(home, source_dir)
    return _rule_in(module, name)


def _file_with(name: str, place: Path) -> Path:
    """The file that defines a class of that name, found without running any."""
    files = sorted(place.glob("*.py")) if place.is_dir() else [place]
    found = [file for file in files if name in _class_names(file)]
    if len(found) == 1:
        return found[0]
    looked = ", ".join(file.name for file in found or files) or "no Python file"
    raise RuleInvalid(
        f"class {name} is in several files: {looked}"
        if found
        else f"there is no class {name} in {place} (looked into {looked})",
        fix=_FORM,
    )


def _class_names(file: Path) -> list[str]:
    try:
        tree = ast.parse(read_regular(str(file), follow_links=True))
    except (OSError, SyntaxError, ValueError):
        return []
    return [node.name for node in tree.body if isinstance(node, ast.ClassDef)]


def _load_file(file: Path, source_dir: Path) -> ModuleType:
    if not file.is_file():
        near = difflib.get_close_matches(file.name, [f.name for f in file.parent.glob("*.py")], 1)
        raise RuleInvalid(
            f"there is no file {_shown(file, source_dir)} in {source_dir}",
            fix=f"did you mean {near[0]}?" if near else _FORM,
        )
    # Its own name, so that no module of the same name is in its way, nor it in theirs.
    digest = hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:12]
    spec = importlib.util.spec_from_file_location(f"{file.stem}_{digest}", file)
    if spec is None or spec.loader is None:
        raise RuleInvalid(f"{file} is not a Python file", fix=_FORM)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # annotations of classes are looked up there
    run = spec.loader.exec_module
    shown = _shown(file, source_dir)
    _run_users_code(lambda: run(module), shown, source_dir, folders=[file.parent, source_dir])
    return module


def _load_module(name: str, source_dir: Path) -> ModuleType:
    modules: list[ModuleType] = []
    _run_users_code(
        lambda: modules.append(importlib.import_module(name)),
        name,
        source_dir,
        folders=[source_dir],
    )
    return modules[0]


def _run_users_code(
    run: Callable[[], None], what: str, source_dir: Path, *, folders: Sequence[Path]
) -> None:
    # At the end of the path: a json.py of the user's must not take the place of Python's own.
    sys.path += [folder for path in folders if (folder := str(path.resolve())) not in sys.path]
    try:
        run()
    except TooSlow:
        raise
    except RULE_FAULTS as error:
        raise RuleInvalid(
            f"{what} cannot be imported: {_where(error, source_dir)}{fault_text(error)}",
            fix="try it: python -c 'import …' in the source directory, with the image's packages",
        ) from error


def _where(error: BaseException, source_dir: Path) -> str:
    """The last line of the user's own that was running."""
    if isinstance(error, SyntaxError):
        return ""  # its text tells
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if Path(f.filename).resolve().is_relative_to(source_dir.resolve())]
    if not own:
        return ""
    return f"{_shown(Path(own[-1].filename), source_dir)}, line {own[-1].lineno}: {own[-1].line}: "


def _shown(file: Path, source_dir: Path) -> str:
    full, base = file.resolve(), source_dir.resolve()
    return str(full.relative_to(base)) if full.is_relative_to(base) else str(file)


def _rule_in(module: ModuleType, name: str) -> type[Rule]:
    cls = getattr(module, name, None)
    if cls is None:
        rules = [n for n, value in vars(module).items() if _is_rule_of(value, module)]
        raise RuleInvalid(
            f"{module.__file__} has no class {name}",
            fix=f"it has these rules: {', '.join(rules) or 'none'}",
        )
    if inspect.isclass(cls) and issubclass(cls, Rule):
        return cls
    if _is_smdebug_rule(cls):
        # Only here: a user of such a class has smdebug; others need not have it.
        from stoker.debugging.rules.smdebug_rule import adapt_smdebug_rule

        return adapt_smdebug_rule(cls)
    raise RuleInvalid(
        f"{name} in {module.__file__} is not a rule",
        fix="make it a subclass of stoker.Rule (method check), or of smdebug.rules.rule.Rule "
        "(method invoke_at_step)",
    )


def _is_rule_of(value: object, module: ModuleType) -> bool:
    if not inspect.isclass(value) or value.__module__ != module.__name__:
        return False
    return issubclass(value, Rule) or _is_smdebug_rule(value)


def _is_smdebug_rule(value: object) -> bool:
    """By its ancestors' names: smdebug takes a second to import, and need not be there."""
    bases = value.__mro__ if inspect.isclass(value) else ()
    return any(b.__module__ == "smdebug.rules.rule" and b.__name__ == "Rule" for b in bases)

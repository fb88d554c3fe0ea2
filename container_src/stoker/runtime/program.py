"""What the entry point is: a script, a module, a shell script or any other program."""

from __future__ import annotations

import os

from stoker.contract.files import read_regular
from stoker.contract.record import Record
from stoker.errors import CodeMissing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

_LONGEST_REQUIREMENTS_BYTES = 1024 * 1024


class Program(Record):
    """The user's entry point in the folder that has its code."""

    folder: str
    kind: Literal["script", "module", "shell", "executable"]
    target: str
    """File name relative to the folder, or dotted module name."""
    entry_point: str
    """The same as the job names it."""
    requirements: str | None = None
    interpreter: tuple[str, ...] = ()
    """What a script without its executable bit names in its first line."""
    is_package: bool = False
    """The folder is a project of its own (pyproject.toml or setup.py) to be installed."""
    needs_setuptools_only: bool = False
    """It can be built with what the image has: without a network, too."""


def find_program(folder: str, entry_point: str) -> Program:
    """Looks at the code and decides how the entry point is run.

    Raises:
        CodeMissing: no such file or module; the text names what is there.
    """
    name = entry_point.removeprefix(f"{folder}/")
    is_package = _is_project(folder)
    kind, target = _classify(folder, name, is_package=is_package)
    return Program(
        folder=folder,
        kind=kind,
        target=target,
        entry_point=name,
        interpreter=_interpreter(f"{folder}/{target}") if kind == "shell" else (),
        requirements=_find_requirements(folder),
        is_package=is_package,
        needs_setuptools_only=is_package and _needs_setuptools_only(folder),
    )


def _find_requirements(folder: str) -> str | None:
    file = f"{folder}/requirements.txt"
    try:
        size_bytes = len(read_regular(file, _LONGEST_REQUIREMENTS_BYTES, follow_links=True))
    except FileNotFoundError:
        return None
    except OSError as error:
        reason = error.strerror
    else:
        if size_bytes < _LONGEST_REQUIREMENTS_BYTES:
            return file
        reason = f"it has more than {_LONGEST_REQUIREMENTS_BYTES} bytes"
    raise CodeMissing(
        f"{file} cannot be installed: {reason}", fix="make it a text file, or delete it"
    )


def _classify(
    folder: str, name: str, *, is_package: bool
) -> tuple[Literal["script", "module", "shell", "executable"], str]:
    file = f"{folder}/{name}"
    if os.path.isfile(file):
        if name.endswith(".py"):
            # Inside a package, relative imports need -m; with a setup.py the toolkit uses it,
            # which makes sys.argv[0] an absolute path. Any other script is a script.
            is_module = is_package and (_is_in_package(folder, name) or _has_setup(folder, name))
            return ("module", _dotted(name)) if is_module else ("script", name)
        return ("executable" if _starts_itself(file) else "shell"), name
    module = f"{folder}/{name.replace('.', '/')}"
    if os.path.isfile(f"{module}/__main__.py") or os.path.isfile(f"{module}.py"):
        return "module", name.replace("/", ".")
    if is_package and all(part.isidentifier() for part in _dotted(name).split(".")):
        return "module", _dotted(name)  # pip puts it where python -m finds it (src layouts)
    raise _missing(folder, name)


def _starts_itself(file: str) -> bool:
    if not os.access(file, os.X_OK):  # archives and S3 lose the bit
        return False
    return read_regular(file, 4, follow_links=True).startswith((b"#!", b"\x7fELF"))


def _interpreter(file: str) -> tuple[str, ...]:
    """Of the first line (#!); bash where there is none. Archives and S3 lose the mode."""
    first, _, _ = read_regular(file, 256, follow_links=True).partition(b"\n")
    if first.endswith(b"\r"):
        raise CodeMissing(
            f"{os.path.basename(file)} has Windows line ends (CRLF), which no shell here reads",
            fix="save it with LF line ends (dos2unix, or git's autocrlf=input)",
        )
    if not first.startswith(b"#!"):
        return ("/bin/bash",)
    return tuple(first[2:].decode("utf-8", "replace").split())


def _missing(folder: str, name: str) -> CodeMissing:
    file = f"{folder}/{name}"
    if os.path.lexists(file) and not os.path.isdir(file):
        return CodeMissing(
            f"entry point {name!r} is not a regular file, but a FIFO, a device, a socket or a "
            "link that leads to none",
            fix="put the script itself there",
        )
    # Imported here: only a job that is about to fail needs it.
    from difflib import get_close_matches

    files = sorted(_files(folder))
    near = get_close_matches(name, files, n=1)
    shown = ", ".join(files[:20]) or "nothing"
    return CodeMissing(
        f"entry point {name!r} is not in {folder}, which holds: {shown}",
        fix=f"did you mean {near[0]!r}?" if near else "name a file relative to source_dir",
    )


def _files(folder: str) -> list[str]:
    found = []
    for path, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name[0] not in "._"]
        found += [os.path.relpath(os.path.join(path, name), folder) for name in names]
        if len(found) > 1000:
            break
    return found


def _is_project(folder: str) -> bool:
    if os.path.isfile(f"{folder}/setup.py"):
        return True
    try:
        text = read_regular(f"{folder}/pyproject.toml", follow_links=True)
    except OSError:
        return False
    # A file that only configures tools does not make a package.
    return b"[build-system]" in text or b"[project]" in text


def _needs_setuptools_only(folder: str) -> bool:
    try:
        text = read_regular(f"{folder}/pyproject.toml", follow_links=True).decode()
    except (OSError, UnicodeDecodeError):
        return True
    # Imported here: few jobs bring a project.
    import tomllib

    try:
        required = tomllib.loads(text).get("build-system", {}).get("requires", [])
    except tomllib.TOMLDecodeError:
        return False  # pip will say what is wrong with it
    names = {"".join(c for c in str(line) if c.isalpha() or c in "-_") for line in required}
    return names <= {"setuptools", "wheel"}


def _is_in_package(folder: str, script: str) -> bool:
    parts = script.split("/")[:-1]
    parents = ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
    return bool(parents) and all(os.path.isfile(f"{folder}/{p}/__init__.py") for p in parents)


def _has_setup(folder: str, script: str) -> bool:
    return script[:-3].isidentifier() and os.path.isfile(f"{folder}/setup.py")


def _dotted(name: str) -> str:
    return name.removesuffix(".py").replace("/", ".")

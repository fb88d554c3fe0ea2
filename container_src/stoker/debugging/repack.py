"""Make smdebug run on today's stack: repack the published wheel with as few changes as possible.

smdebug 1.0.34 is the last release and needs protobuf 3.20, an old NumPy, `distutils` and four
packages that it does not declare. This program reads that one wheel and writes
`1.0.34+stoker1`: the protobuf modules in today's layout, five lines of code mended, and the true
dependencies, so that pip resolves it like any package and `pip check` is clean.

It runs while the image is built, before Stoker is installed. So it imports nothing but the
standard library and also works as a plain file.

Example:
    python -m stoker.debugging.repack smdebug-1.0.34-py2.py3-none-any.whl wheels/
"""

from __future__ import annotations

import ast
import base64
import hashlib
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

UPSTREAM = "1.0.34"
VERSION = f"{UPSTREAM}+stoker1"
UPSTREAM_SHA256 = "cf468938aa8e502888060b1508b7c78220074da23cd6c9e663e939057784b3f8"

_OLD_INFO = f"smdebug-{UPSTREAM}.dist-info"
_NEW_INFO = f"smdebug-{VERSION}.dist-info"
_PROTO = "smdebug/core/tfevent/proto/"


class RepackFailed(Exception):
    """Why it cannot be done. No `StokerError`: this runs where Stoker is not installed yet."""


class Edit(NamedTuple):
    """One change of one file: `old` stands there exactly once, `new` takes its place."""

    path: str
    old: str
    new: str
    why: str


_NO_DISTUTILS = "Python 3.12 removed distutils"
_OLD_STRTOBOOL = "from distutils.util import strtobool"
_NEW_STRTOBOOL = "from smdebug.core.strtobool import strtobool"
EDITS = (
    Edit("smdebug/_version.py", f'"{UPSTREAM}"', f'"{VERSION}"', "not the published package"),
    Edit("smdebug/core/tfevent/util.py", ".tostring()", ".tobytes()", "NumPy 2.3 has no tostring"),
    Edit(
        "smdebug/core/tfevent/summary.py",
        "scalar = float(scalar)\n",
        "scalar = float(scalar.reshape(-1)[0])\n",
        "NumPy 2.4 converts only 0-dimensional arrays to float",
    ),
    Edit("smdebug/core/config_validator.py", _OLD_STRTOBOOL, _NEW_STRTOBOOL, _NO_DISTUTILS),
    Edit("smdebug/profiler/utils.py", _OLD_STRTOBOOL, _NEW_STRTOBOOL, _NO_DISTUTILS),
)

METADATA_EDITS = (
    (f"\nVersion: {UPSTREAM}\n", f"\nVersion: {VERSION}\n"),
    # The rebuilt protobuf modules need `internal.builder`, which came with 3.20.
    ("Requires-Dist: protobuf (<=3.20.3,>=3.20.0)\n", "Requires-Dist: protobuf>=3.20.0\n"),
    # 3.4.2 would need a C compiler in the image; 5.x has wheels and the same interface.
    (
        "Requires-Dist: pyinstrument (==3.4.2)\n",
        "Requires-Dist: pyinstrument>=3.4.2\n"
        # Imported by smdebug, and never declared.
        + "".join(f"Requires-Dist: {name}\n" for name in ("pandas", "psutil", "requests", "six")),
    ),
)

_STRTOBOOL_MODULE = '''\
# Added by Stoker: takes the place of distutils.util.strtobool, which Python 3.12 removed.
_TRUE = frozenset({"1", "on", "t", "true", "y", "yes"})
_FALSE = frozenset({"0", "f", "false", "n", "no", "off"})


def strtobool(val):
    """1 for a word that means yes, 0 for one that means no; ValueError for any other."""
    word = val.lower()
    if word not in _TRUE | _FALSE:
        raise ValueError(f"invalid truth value {word!r}")
    return int(word in _TRUE)
'''


def repack(wheel: Path, outdir: Path) -> Path:
    """Write the repacked wheel into `outdir`.

    Args:
        wheel: smdebug's wheel as published; its SHA-256 is checked.
        outdir: a folder; made when it is missing.

    Returns:
        The path of the new wheel. The same input gives the same bytes.

    Raises:
        RepackFailed: it is not that wheel, or a line to change is not where it was.
    """
    files = make_files(_read_wheel(wheel))
    outdir.mkdir(parents=True, exist_ok=True)
    target = outdir / wheel.name.replace(f"-{UPSTREAM}-", f"-{VERSION}-", 1)
    _write_wheel(target, files)
    return target


def make_files(upstream: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of the new wheel, RECORD last, from the files of the published one."""
    files = dict(upstream)
    notes: dict[str, str] = {}
    for edit in EDITS:
        text = _replace_once(edit.path, files[edit.path].decode(), edit.old, edit.new)
        files[edit.path] = f"{_mark(edit.why)}\n{text}".encode()
        notes[edit.path] = edit.why
    for path in sorted(name for name in files if name.startswith(_PROTO) and "_pb2" in name):
        files[path] = make_pb2(path, files[path].decode()).encode()
        notes[path] = "protobuf 4 and later refuse descriptors in the layout of protoc 3.11"
    files["smdebug/core/strtobool.py"] = _STRTOBOOL_MODULE.encode()
    files[f"{_OLD_INFO}/METADATA"] = _metadata(files)
    notes[f"{_OLD_INFO}/METADATA"] = "the version and the true dependencies"
    del files[f"{_OLD_INFO}/RECORD"]
    renamed = {name.replace(_OLD_INFO, _NEW_INFO): content for name, content in files.items()}
    renamed[f"{_NEW_INFO}/STOKER-CHANGES"] = _changes(notes).encode()
    renamed[f"{_NEW_INFO}/RECORD"] = make_record(renamed).encode()
    return renamed


def make_pb2(path: str, source: str) -> str:
    """The protobuf module `source` in the layout that protoc writes since 3.20.

    The descriptor itself (`serialized_pb`) is taken over byte for byte: no protoc is needed and
    what is written to disk stays the same.
    """
    nodes = list(ast.walk(ast.parse(source)))
    found = [n.value for n in nodes if isinstance(n, ast.keyword) and n.arg == "serialized_pb"]
    if len(found) != 1:
        raise RepackFailed(_unexpected(path, "`serialized_pb=`", len(found)))
    siblings = _PROTO.strip("/").replace("/", ".")
    imports = [n for n in nodes if isinstance(n, ast.ImportFrom) and n.module == siblings]
    module = path.removesuffix(".py").replace("/", ".")
    lines = [
        _mark("rebuilt from the descriptor inside it: protobuf 4 refuses the old layout"),
        "from google.protobuf import descriptor_pool as _descriptor_pool",
        "from google.protobuf.internal import builder as _builder",
        *map(ast.unparse, imports),
        "",
        f"DESCRIPTOR = _descriptor_pool.Default().AddSerializedFile({ast.unparse(found[0])})",
        "_builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())",
        f"_builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, {module!r}, globals())",
    ]
    return "\n".join([*lines, ""])


def make_record(files: Mapping[str, bytes]) -> str:
    """The RECORD of a wheel: path, hash and size of each file; its own line is empty."""
    lines = []
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(content)}\n")
    return "".join([*lines, f"{_NEW_INFO}/RECORD,,\n"])


def _read_wheel(wheel: Path) -> dict[str, bytes]:
    try:
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    except OSError as error:
        raise RepackFailed(
            f"cannot read the wheel {wheel}: {error.strerror}\n"
            f"  fix: pip download --no-deps smdebug=={UPSTREAM}"
        ) from error
    if digest != UPSTREAM_SHA256:
        raise RepackFailed(
            f"{wheel.name} is not the published wheel of smdebug {UPSTREAM}:\n"
            f"  its sha256 is {digest}\n  expected      {UPSTREAM_SHA256}\n"
            f"  fix: pip download --no-deps smdebug=={UPSTREAM}, and pass that file"
        )
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _write_wheel(target: Path, files: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in files.items():
            # ZipInfo's fixed date (1980) makes the wheel reproducible.
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)


def _metadata(files: Mapping[str, bytes]) -> bytes:
    text = files[f"{_OLD_INFO}/METADATA"].decode()
    for old, new in METADATA_EDITS:
        text = _replace_once("METADATA", text, old, new)
    return text.encode()


def _replace_once(path: str, text: str, old: str, new: str) -> str:
    if text.count(old) != 1:
        raise RepackFailed(_unexpected(path, repr(old), text.count(old)))
    return text.replace(old, new)


def _mark(why: str) -> str:
    return f"# Changed by Stoker from smdebug {UPSTREAM} (Apache-2.0, section 4b): {why}."


def _changes(notes: Mapping[str, str]) -> str:
    lines = [f"{path.replace(_OLD_INFO, _NEW_INFO)}: {why}" for path, why in notes.items()]
    head = f"smdebug {UPSTREAM}, changed by Stoker (Apache-2.0, section 4b). The changed files:\n"
    return "\n".join([head, *lines, "smdebug/core/strtobool.py: added", ""])


def _unexpected(path: str, what: str, count: int) -> str:
    return (
        f"{path}: expected {what} exactly once, found it {count} times\n"
        f"  fix: compare the file with smdebug {UPSTREAM} and correct the edit in {__name__}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run as a program: `repack WHEEL OUTDIR`."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if len(arguments) != 2:
        print("usage: repack.py WHEEL OUTDIR", file=sys.stderr)
        return 2
    try:
        target = repack(Path(arguments[0]), Path(arguments[1]))
    except RepackFailed as error:
        print(f"repack: {error}", file=sys.stderr)
        return 3
    print(f"repack: {target} ({len(EDITS)} files mended, protobuf modules rebuilt)")
    return 0


if __name__ == "__main__":
    sys.exit(main())

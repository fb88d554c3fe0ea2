"""Make smdebug run on today's stack: repack the published wheel with as few changes as possible.

smdebug 1.0.34 is the last release and needs protobuf 3.20, an old NumPy, `distutils` and four
packages that it does not declare; and it has faults that a training script meets. This program
reads that one wheel and writes `1.0.34+stoker2`: the protobuf modules in today's layout, the
edits of `stoker.debugging.smdebug_edits`, and the true dependencies, so that pip resolves it like
any package and `pip check` is clean. Level 1 (`1.0.34+stoker1`) is for comparisons: only what
smdebug needs to run at all.

It runs while the image is built, before Stoker is installed. So it imports nothing but the
standard library and the edits.

Example:
    python -m stoker.debugging.repack [--level 1] smdebug-1.0.34-py2.py3-none-any.whl wheels/
"""

from __future__ import annotations

import argparse
import ast
import base64
import hashlib
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from stoker.debugging.smdebug_edits import (
    ADDED,
    EDITS,
    METADATA_EDITS,
    UPSTREAM,
    Edit,
    RepackFailed,
    unexpected,
)

LEVEL = max(EDITS)
UPSTREAM_SHA256 = "cf468938aa8e502888060b1508b7c78220074da23cd6c9e663e939057784b3f8"

_OLD_INFO = f"smdebug-{UPSTREAM}.dist-info"
_PROTO = "smdebug/core/tfevent/proto/"


def version_of(level: int) -> str:
    """smdebug's version with our changes of that level."""
    return f"{UPSTREAM}+stoker{level}"


VERSION = version_of(LEVEL)


def repack(wheel: Path, outdir: Path, *, level: int = LEVEL) -> Path:
    """Write the repacked wheel into `outdir`.

    Args:
        wheel: smdebug's wheel as published; its SHA-256 is checked.
        outdir: a folder; made when it is missing.
        level: 1 = what it needs to run, 2 = also the faults that are fixed.

    Returns:
        The path of the new wheel. The same input gives the same bytes.

    Raises:
        RepackFailed: it is not that wheel, or a line to change is not where it was.
    """
    files = make_files(_read_wheel(wheel), level=level)
    outdir.mkdir(parents=True, exist_ok=True)
    target = outdir / f"smdebug-{version_of(level)}-py2.py3-none-any.whl"
    write_wheel(target, files)
    return target


def make_files(upstream: Mapping[str, bytes], *, level: int = LEVEL) -> dict[str, bytes]:
    """The files of the new wheel, RECORD last, from the files of the published one."""
    files = dict(upstream)
    notes: dict[str, list[str]] = {}
    version = Edit("smdebug/_version.py", "not the published package", UPSTREAM, version_of(level))
    for edit in (version, *EDITS[level]):
        files[edit.path] = edit.apply(files[edit.path].decode()).encode()
        reasons = notes.setdefault(edit.path, [])
        reasons += [edit.why] if edit.why not in reasons else []
    for path, reasons in notes.items():
        files[path] = "".join(map(_mark, reasons)).encode() + files[path]
    for path in sorted(name for name in files if name.startswith(_PROTO) and "_pb2" in name):
        files[path] = make_pb2(path, files[path].decode()).encode()
        notes[path] = ["protobuf 4 and later refuse descriptors in the layout of protoc 3.11"]
    files |= {path: text.encode() for path, text in ADDED.items()}
    notes |= {path: ["added"] for path in ADDED}
    files[f"{_OLD_INFO}/METADATA"] = _metadata(files[f"{_OLD_INFO}/METADATA"].decode(), level)
    del files[f"{_OLD_INFO}/RECORD"]
    info = f"smdebug-{version_of(level)}.dist-info"
    renamed = {name.replace(_OLD_INFO, info): content for name, content in files.items()}
    renamed[f"{info}/STOKER-CHANGES"] = _changes(notes).encode()
    renamed[f"{info}/RECORD"] = make_record(renamed, f"{info}/RECORD").encode()
    return renamed


def make_pb2(path: str, source: str) -> str:
    """The protobuf module `source` in the layout that protoc writes since 3.20.

    The descriptor itself (`serialized_pb`) is taken over byte for byte: no protoc is needed and
    what is written to disk stays the same.
    """
    nodes = list(ast.walk(ast.parse(source)))
    found = [n.value for n in nodes if isinstance(n, ast.keyword) and n.arg == "serialized_pb"]
    if len(found) != 1:
        raise unexpected(path, "`serialized_pb=`", len(found))
    siblings = _PROTO.strip("/").replace("/", ".")
    imports = [n for n in nodes if isinstance(n, ast.ImportFrom) and n.module == siblings]
    module = path.removesuffix(".py").replace("/", ".")
    lines = [
        _mark("rebuilt from the descriptor inside it: protobuf 4 refuses the old layout").rstrip(),
        "from google.protobuf import descriptor_pool as _descriptor_pool",
        "from google.protobuf.internal import builder as _builder",
        *map(ast.unparse, imports),
        "",
        f"DESCRIPTOR = _descriptor_pool.Default().AddSerializedFile({ast.unparse(found[0])})",
        "_builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())",
        f"_builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, {module!r}, globals())",
    ]
    return "\n".join([*lines, ""])


def make_record(files: Mapping[str, bytes], itself: str) -> str:
    """The RECORD of a wheel: path, hash and size of each file; its own line is empty."""
    lines = []
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(content)}\n")
    return "".join([*lines, f"{itself},,\n"])


def write_wheel(target: Path, files: Mapping[str, bytes]) -> None:
    """Write a wheel; the same files give the same bytes."""
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in files.items():
            # ZipInfo's fixed date (1980) makes the wheel reproducible.
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)


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


def _metadata(text: str, level: int) -> bytes:
    old, new = f"\nVersion: {UPSTREAM}\n", f"\nVersion: {version_of(level)}\n"
    for edit in (Edit("METADATA", "the version", old, new), *METADATA_EDITS):
        text = edit.apply(text)
    return text.encode()


def _mark(why: str) -> str:
    return f"# Changed by Stoker from smdebug {UPSTREAM} (Apache-2.0, section 4b): {why}.\n"


def _changes(notes: Mapping[str, Sequence[str]]) -> str:
    head = f"smdebug {UPSTREAM}, changed by Stoker (Apache-2.0, section 4b). Changed files:\n\n"
    lines = [f"{path}: {why}\n" for path, reasons in notes.items() for why in reasons]
    return "".join([head, *lines, "METADATA: the version and the true dependencies\n"])


def main(argv: Sequence[str] | None = None) -> int:
    """Run as a program: `repack [--level N] WHEEL OUTDIR`."""
    parser = argparse.ArgumentParser(prog="repack", description="Make smdebug run today.")
    parser.add_argument("wheel", type=Path, metavar="WHEEL", help=f"of smdebug {UPSTREAM}")
    parser.add_argument("outdir", type=Path, metavar="OUTDIR", help="where the new wheel goes")
    parser.add_argument("--level", type=int, choices=sorted(EDITS), default=LEVEL)
    arguments = parser.parse_args(argv)
    try:
        target = repack(arguments.wheel, arguments.outdir, level=arguments.level)
    except RepackFailed as error:
        print(f"repack: {error}", file=sys.stderr)
        return 3
    print(f"repack: {target} ({len(EDITS[arguments.level])} edits, protobuf modules rebuilt)")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""How runs differ: parameters, metrics, data, image, packages and code."""

from __future__ import annotations

import difflib
import io
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stoker.cli.runs.showing import show_value
from stoker.machine.terminal import make_table
from stoker.tracking.run_rows import RunRow

_MOST_FILE_BYTES = 512 * 1024  # code is smaller, and a diff of data tells nothing
_MOST_ARCHIVE_BYTES = 256 << 20  # larger ones hold data, not code
_MOST_DIFF_LINES = 400
Facts = Callable[[RunRow], Mapping[str, str]]


def compare(rows: Sequence[RunRow], s3_folder: Path) -> dict[str, Any]:
    """Section → name → the value of each run, where they are not all equal; and the code."""
    sections: dict[str, Any] = {}
    for title, read in _SECTIONS.items():
        facts = [read(row) for row in rows]
        names = dict.fromkeys(name for each in facts for name in each)
        values = {name: [each.get(name, "") for each in facts] for name in names}
        differing = {name: each for name, each in values.items() if len(set(each)) > 1}
        if differing:
            sections[title] = differing
    code, missing = compare_code(rows, s3_folder)
    if code or missing:
        sections["code"] = code
    if missing:
        sections["code that is not here"] = missing
    return {"runs": [row.run.name for row in rows], "differences": sections}


def render_comparison(rows: Sequence[RunRow], found: Mapping[str, Any]) -> Iterator[str]:
    """The same as tables, and the code as a unified diff."""
    header = ["", *(row.name for row in rows)]
    sections = found["differences"]
    if not sections:
        yield "no differences"
    for title, values in sections.items():
        yield title
        if title == "code":
            for name, lines in values.items():
                yield f"  {name}"
                yield from (f"    {line}" for line in lines)
        elif isinstance(values, dict):
            table = [header, *([name, *each] for name, each in values.items())]
            yield from (f"  {line}" for line in make_table(table))
        else:
            yield from (f"  {text}" for text in values)


def _read_params(row: RunRow) -> dict[str, str]:
    return {name: show_value(value) for name, value in row.run.parameters.items()}


def _read_metrics(row: RunRow) -> dict[str, str]:
    return {name: show_value(each.last.value) for name, each in row.metrics.items()}


def _read_inputs(row: RunRow) -> dict[str, str]:
    lineage = row.run.lineage
    # Of a hash `sha256:` and twelve digits, as many as of a commit.
    found = {
        name: f"{part.get('uri', '')} {part.get('hash', '')[:19]}".strip()
        for name, part in lineage.get("inputs", {}).items()
    }
    if part := lineage.get("resumed_from"):
        found["checkpoint"] = f"{part.get('uri', '')} {part.get('hash', '')[:19]}"
    return found


def _read_image(row: RunRow) -> dict[str, str]:
    lineage = row.run.lineage
    image = lineage.get("image", {})
    shown = f"{image.get('name', '')} {image.get('digest', '')[:19]}".strip()
    return {"image": shown, "python": str(lineage.get("python", ""))} if image else {}


def _read_packages(row: RunRow) -> dict[str, str]:
    return dict(row.run.lineage.get("packages", {}))


def _read_state(row: RunRow) -> dict[str, str]:
    code = row.run.lineage.get("source_code", {})
    commit = str(code.get("git_commit", ""))[:12]
    dirty = " and changes" if code.get("git_dirty") else ""
    return {
        "status": row.run.status or "",
        "experiment": row.experiment,
        "git commit": f"{commit}{dirty}",
    }


_SECTIONS: Mapping[str, Facts] = {
    "state": _read_state,
    "parameters": _read_params,
    "metrics": _read_metrics,
    "data": _read_inputs,
    "image": _read_image,
    "packages": _read_packages,
}


def compare_code(
    rows: Sequence[RunRow], s3_folder: Path
) -> tuple[dict[str, list[str]], list[str]]:
    """File → unified diff of the first run's with each other's; and what could not be read."""
    hashes = {str(row.run.lineage.get("source_code", {}).get("hash", "")) for row in rows}
    # Equal hashes: nothing is read, however large the archives are.
    if len(hashes) < 2:
        return {}, []
    sources = [read_code(row, s3_folder) for row in rows]
    missing = [
        f"{row.name}: {row.run.lineage.get('source_code', {}).get('uri') or 'unknown'}"
        for row, files in zip(rows, sources, strict=True)
        if files is None
    ]
    first, found = sources[0], {}
    for row, other in zip(rows[1:], sources[1:], strict=True):
        if first is None or other is None:
            continue
        for name in sorted(first.keys() | other.keys()):
            if first.get(name) != other.get(name):
                title = name if len(rows) == 2 else f"{name} ({row.name})"
                found[title] = _diff(name, first.get(name, b""), other.get(name, b""))
    return found, missing


def _diff(name: str, old: bytes, new: bytes) -> list[str]:
    # As git tells binary files from text.
    if b"\0" in old[:8000] + new[:8000]:
        return ["binary files differ"]
    before, after = (part.decode("utf-8", "replace").splitlines() for part in (old, new))
    made = difflib.unified_diff(before, after, f"a/{name}", f"b/{name}", lineterm="", n=2)
    lines = list(made)
    if len(lines) > _MOST_DIFF_LINES:
        lines[_MOST_DIFF_LINES:] = [f"… and {len(lines) - _MOST_DIFF_LINES} more lines"]
    return lines


def read_code(row: RunRow, s3_folder: Path) -> dict[str, bytes] | None:
    """The files a run was made from; None where they are not in the platform's S3 any more."""
    uri = str(row.run.lineage.get("source_code", {}).get("uri", ""))
    if uri.startswith("s3://"):
        place = s3_folder / uri.removeprefix("s3://")
    elif uri.startswith("file://"):
        place = Path(uri.removeprefix("file://"))
    else:
        return None
    files: dict[str, bytes] = {}
    try:
        paths = sorted(p for p in place.rglob("*") if p.is_file()) if place.is_dir() else [place]
        for path in paths:
            if path.name.endswith((".tar.gz", ".tgz")):
                files |= _read_archive(path)
            elif path.stat().st_size <= _MOST_FILE_BYTES:
                name = str(path.relative_to(place)) if path != place else path.name
                files[name] = path.read_bytes()
    except (OSError, tarfile.TarError, EOFError):
        return None
    return files


def _read_archive(path: Path) -> dict[str, bytes]:
    if path.stat().st_size > _MOST_ARCHIVE_BYTES:
        return {}
    files = {}
    with tarfile.open(fileobj=io.BytesIO(path.read_bytes())) as archive:
        for member in archive:
            if member.isfile() and member.size <= _MOST_FILE_BYTES:
                opened = archive.extractfile(member)
                files[member.name.removeprefix("./")] = opened.read() if opened else b""
    return files

"""Checkpoints for people and for programs: tables and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stoker.checkpoints.store import Checkpoint, Store
from stoker.checkpoints.upload_state import is_uploading
from stoker.machine.terminal import make_table
from stoker.machine.units import show_size


@dataclass(frozen=True, kw_only=True, slots=True)
class ForeignFile:
    """A file or folder among the checkpoints that Stoker did not write."""

    name: str
    """Folders end in a slash."""

    size_bytes: int
    """Of a folder: all that is in it."""

    changed_at: str
    """When it was last written to."""


def read_foreign(store: Store) -> list[ForeignFile]:
    """What a script has saved by itself; what vanishes meanwhile is left out."""
    found = []
    for name in store.foreign():
        path = Path(store.folder, name)
        try:
            is_folder = path.is_dir()
            files = [f for f in path.rglob("*") if f.is_file()] if is_folder else [path]
            stats = [file.stat() for file in files] or [path.stat()]
        except FileNotFoundError:
            continue
        size_bytes = sum(stat.st_size for stat in stats) if files else 0
        changed = datetime.fromtimestamp(max(stat.st_mtime for stat in stats), UTC)
        found.append(
            ForeignFile(
                name=f"{name}/" if is_folder else name,
                size_bytes=size_bytes,
                changed_at=f"{changed:%Y-%m-%dT%H:%M:%SZ}",
            )
        )
    return found


def resumable(checkpoints: Sequence[Checkpoint]) -> Checkpoint | None:
    """The one a resume takes, if its bytes are what its manifest says."""
    return next((c for c in reversed(checkpoints) if not c.problem), None)


def make_row(checkpoint: Checkpoint, *, is_newest: bool = False) -> dict[str, Any]:
    """One checkpoint for programs."""
    found = checkpoint.manifest
    row: dict[str, Any] = {"name": checkpoint.name, "step": checkpoint.step}
    row |= {"problem": checkpoint.problem, "is_newest": is_newest, "is_best": checkpoint.is_best}
    row["is_uploading"] = is_uploading(checkpoint.path)
    if found:
        row |= {"epoch": found.epoch, "batch": found.batch, "size_bytes": found.size_bytes}
        row |= {"metric": found.metric.value if found.metric else None}
        row |= {"saved_at": found.saved_at, "job": found.job}
    return row


def make_listing(store: Store, place: str) -> dict[str, Any]:
    """The whole place for programs."""
    checkpoints = store.read_all()
    newest = resumable(checkpoints)
    return {
        "place": place,
        "checkpoints": [make_row(c, is_newest=c is newest) for c in checkpoints],
        "foreign": [asdict(file) for file in read_foreign(store)],
    }


def render_listing(listing: Mapping[str, Any]) -> str:
    """The whole place for people."""
    rows, foreign = listing["checkpoints"], listing["foreign"]
    if not rows and not foreign:
        return f"{listing['place']}: no checkpoints"
    lines = []
    if rows:
        cells = [("name", "step", "epoch", "size", "saved", ""), *map(_cells, rows)]
        marks = [" ", *("*" if row["is_newest"] else " " for row in rows)]
        table = make_table(cells, right={1, 2, 3})
        lines += [f"{mark} {line}" for mark, line in zip(marks, table, strict=True)]
        if any(row["is_newest"] for row in rows):
            lines += ["", "* a resume takes this one, if `verify` finds nothing"]
    if foreign:
        lines += [""] if lines else []
        files = [(f["name"], show_size(f["size_bytes"]), f["changed_at"]) for f in foreign]
        lines += ["files that are not Stoker's:"]
        lines += [f"  {line}" for line in make_table(files, right={1})]
    return "\n".join(lines)


def make_details(checkpoint: Checkpoint) -> dict[str, Any]:
    """All that a manifest tells, for programs."""
    found = checkpoint.manifest
    details = make_row(checkpoint)
    if found:
        details |= {"world_size": found.world_size, "is_sharded": found.is_sharded}
        details |= {"parts": list(found.parts), "config": dict(found.config)}
        details |= {"checksum": found.checksum}
        details["files"] = [{"name": s.name, "size_bytes": s.size_bytes} for s in found.shards]
    return details


def render_details(details: Mapping[str, Any]) -> str:
    """All that a manifest tells, for people."""
    shown = {**details}
    for name in ("is_newest", "is_uploading", "is_best", "is_sharded", "problem", "metric"):
        if not shown.get(name):
            shown.pop(name, None)
    if "size_bytes" in shown:
        shown["size_bytes"] = f"{shown['size_bytes']:,} ({show_size(shown['size_bytes'])})"
    shown["parts"] = ", ".join(shown.get("parts", ()))
    files = [f"{f['name']} ({show_size(f['size_bytes'])})" for f in shown.get("files", ())]
    shown["files"] = ", ".join(files)
    config = shown.get("config") or {}
    shown["config"] = ", ".join(f"{key}={value}" for key, value in sorted(config.items()))
    return "\n".join(
        make_table([(key, str(value)) for key, value in shown.items() if value != ""])
    )


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    notes = [f"damaged: {row['problem']}"] if row["problem"] else []
    notes += [f"best {row['metric']:g}"] if row["is_best"] else []
    notes += ["uploading"] if row["is_uploading"] else []
    size = show_size(row["size_bytes"]) if "size_bytes" in row else ""
    epoch = str(row.get("epoch", ""))
    return (row["name"], str(row["step"]), epoch, size, row.get("saved_at", ""), ", ".join(notes))

"""The lineage of a run as a drawn tree: what it was made from, what was made of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from stoker.cli.runs.showing import show_part
from stoker.tracking.run_rows import RunRow

_MOST_DEPTH = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class LineageNode:
    """One line of the tree."""

    text: str
    children: list[LineageNode] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """With everything below it."""
        return {"text": self.text, "children": [child.to_json() for child in self.children]}


def make_tree(row: RunRow, rows: Sequence[RunRow]) -> LineageNode:
    """Back over models that other runs made, and on to the runs that read this one's."""
    before = LineageNode(text="made from", children=list(_list_origins(row, rows, 0)))
    after = LineageNode(text="made", children=list(_list_results(row, rows, 0)))
    shown = [node for node in (before, after) if node.children]
    return LineageNode(text=f"{row.name}  {row.run.status or ''}".rstrip(), children=shown)


def render_tree(node: LineageNode) -> Iterator[str]:
    """Its lines."""
    yield node.text
    for place, child in enumerate(node.children):
        is_last = place == len(node.children) - 1
        first, *others = render_tree(child)
        yield f"{'└─' if is_last else '├─'} {first}"
        yield from (f"{'  ' if is_last else '│ '} {line}" for line in others)


def _list_origins(row: RunRow, rows: Sequence[RunRow], depth: int) -> Iterator[LineageNode]:
    lineage = row.run.lineage
    for name, part in lineage.get("inputs", {}).items():
        maker = _find_maker(str(part.get("uri", "")), row, rows)
        made = []
        # Runs that read what they have written would go round in a circle.
        if maker and depth < _MOST_DEPTH:
            below = list(_list_origins(maker, rows, depth + 1))
            made = [LineageNode(text=f"made by {maker.name}", children=below)]
        yield LineageNode(text=f"data {name}  {show_part(part)}", children=made)
    if part := lineage.get("source_code"):
        yield LineageNode(text=f"code  {show_part(part)}")
    if image := lineage.get("image"):
        digest = str(image.get("digest", ""))[:19]
        yield LineageNode(text=f"image  {image.get('name', '')}  {digest}".rstrip())
    if part := lineage.get("resumed_from"):
        yield LineageNode(text=f"checkpoint  {show_part(part)}")
    if search := lineage.get("search"):
        yield LineageNode(text=f"search  {search}")
    if packages := lineage.get("packages"):
        torch = f", torch {packages['torch']}" if "torch" in packages else ""
        yield LineageNode(text=f"packages  {len(packages)}{torch}")
    if not lineage:
        for name, artifact in row.run.inputs.items():
            yield LineageNode(text=f"{name}  {artifact.uri}")


def _list_results(row: RunRow, rows: Sequence[RunRow], depth: int) -> Iterator[LineageNode]:
    for name, artifact in row.run.outputs.items():
        readers = [other for other in rows if other is not row and _reads(other, artifact.uri)]
        below = [
            LineageNode(
                text=f"read by {other.name}",
                children=list(_list_results(other, rows, depth + 1))
                if depth < _MOST_DEPTH
                else [],
            )
            for other in readers
        ]
        label = "model" if name == "SageMaker.ModelArtifact" else name
        yield LineageNode(text=f"{label}  {artifact.uri}", children=below)
    if row.run.source_type == "SageMakerHyperParameterTuningJob":
        job = row.run.source.rpartition("/")[2]
        for other in rows:
            if str(other.run.lineage.get("search", "")).lower() == job:
                yield LineageNode(text=f"trial {other.name}  {other.run.status or ''}".rstrip())


def _find_maker(uri: str, row: RunRow, rows: Sequence[RunRow]) -> RunRow | None:
    return next(
        (
            other
            for other in rows
            if other is not row
            and uri
            and any(_is_below(made.uri, uri) for made in other.run.outputs.values())
        ),
        None,
    )


def _reads(row: RunRow, uri: str) -> bool:
    parts = [*row.run.lineage.get("inputs", {}).values(), row.run.lineage.get("resumed_from", {})]
    return bool(uri) and any(_is_below(uri, str(part.get("uri", ""))) for part in parts)


def _is_below(uri: str, prefix: str) -> bool:
    """Whether an object is what a prefix names, or in it."""
    return bool(prefix) and (uri == prefix or uri.startswith(f"{prefix.rstrip('/')}/"))

"""The operations of lineage: artifacts, actions and contexts, and the associations of these.

A run is part of the same graph by the ARN of its trial component.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from stoker.platform.model.faults import resource_not_found, validation
from stoker.platform.model.paging import make_page
from stoker.platform.model.root import ACCOUNT, REGION
from stoker.platform.tracking.experiments import newest_first
from stoker.platform.tracking.tracked import (
    Answer,
    Operation,
    Params,
    is_created_within,
    make_arn,
    parse_arn,
    read_tags,
    refusing,
)
from stoker.tracking.memberships import MEMBER
from stoker.tracking.records import LineageEntity, LineageKind, Link, Record, Run
from stoker.tracking.store import RecordMissing, RunStore

KINDS: tuple[LineageKind, ...] = ("artifact", "action", "context")
_COMPONENT = "TrialComponent"


def make_entity(
    kind: LineageKind,
    type_: str,
    source: Mapping[str, Any],
    **fields: Any,  # noqa: ANN401 - of a LineageEntity
) -> LineageEntity:
    """A new entity. An artifact is known by its source, the others by their names."""
    now = time.time()
    id_ = fields.get("title", "")
    if kind == "artifact":
        # The same content at the same place is the same artifact, whatever its name.
        known = [source["SourceUri"], source.get("SourceTypes", uuid.uuid4().hex)]
        id_ = hashlib.sha256(repr(known).encode()).hexdigest()[:32]
    return LineageEntity(
        name=_make_arn(kind, id_),
        kind=kind,
        type=type_,
        source=source,
        created=now,
        modified=now,
        **fields,
    )


def _make_arn(kind: LineageKind, id_: str) -> str:
    return f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:{kind}/{id_.lower()}"


class LineageOperations:
    """Safe to call from several threads."""

    def __init__(self, store: RunStore) -> None:
        self._store = store

    def operations(self) -> dict[str, Operation]:
        """The rows of the service's table."""
        rows: dict[str, Operation] = {
            "AddAssociation": self._associate,
            "DeleteAssociation": self._disassociate,
            "ListAssociations": self._list_associations,
            "QueryLineage": self._query,
        }
        for kind in KINDS:
            rows |= self._rows_of(kind)
        return rows

    def _rows_of(self, kind: LineageKind) -> dict[str, Operation]:
        word = kind.capitalize()
        return {
            f"Create{word}": lambda params: self._create(kind, params),
            f"Describe{word}": lambda params: self._show(self._find(kind, params)),
            f"Update{word}": lambda params: self._update(kind, params),
            f"Delete{word}": lambda params: self._delete(kind, params),
            f"List{word}s": lambda params: self._list(kind, params),
        }

    # ---- entities

    def _create(self, kind: LineageKind, params: Params) -> Answer:
        word = kind.capitalize()
        entity = make_entity(
            kind,
            params[f"{word}Type"],
            params["Source"],
            title=params.get(f"{word}Name", ""),
            description=params.get("Description", ""),
            status=params.get("Status", ""),
            properties=params.get("Properties", {}),
            tags=read_tags(params.get("Tags", ())),
        )
        with refusing(word, entity.title or entity.name):
            self._store.add(entity)
        return {f"{word}Arn": entity.name}

    def _find(self, kind: LineageKind, params: Params) -> LineageEntity:
        word = kind.capitalize()
        if kind == "artifact":
            arn = params.get("ArtifactArn") or self._find_by_source(params)
        else:
            arn = _make_arn(kind, params[f"{word}Name"])
        with refusing(word, arn):
            found = self._store.read(LineageEntity, arn)
        # The store has all three kinds in one table, and an ARN may be of another one.
        if found.kind != kind:
            raise resource_not_found(f"{word} '{arn}' does not exist.")
        return found

    def _find_by_source(self, params: Params) -> str:
        if "Source" not in params:
            raise validation("Either ArtifactArn or Source must be given.")
        return make_entity("artifact", "", params["Source"]).name

    def _show(self, entity: LineageEntity) -> Answer:
        word = entity.kind.capitalize()
        shown = {
            f"{word}Name": entity.title,
            f"{word}Arn": entity.name,
            f"{word}Type": entity.type,
            "Source": entity.source,
            "Description": entity.description,
            "Status": entity.status,
            "Properties": entity.properties,
            "CreationTime": entity.created,
            "LastModifiedTime": entity.modified,
        }
        return {key: value for key, value in shown.items() if value != ""}

    def _update(self, kind: LineageKind, params: Params) -> Answer:
        gone = set(params.get("PropertiesToRemove", ()))

        def update(old: LineageEntity) -> LineageEntity:
            properties = {**old.properties, **params.get("Properties", {})}
            return replace(
                old,
                title=params.get("ArtifactName", old.title),
                description=params.get("Description", old.description),
                status=params.get("Status", old.status),
                properties={k: v for k, v in properties.items() if k not in gone},
                modified=time.time(),
            )

        arn = self._find(kind, params).name
        with refusing(kind.capitalize(), arn):
            self._store.change(LineageEntity, arn, update)
        return {f"{kind.capitalize()}Arn": arn}

    def _delete(self, kind: LineageKind, params: Params) -> Answer:
        with self._store.transaction():
            entity = self._find(kind, params)
            edges = self._edges(source=entity.name) + self._edges(target=entity.name)
            if edges:
                raise validation(
                    f"'{entity.name}' has {len(edges)} associations; delete them first."
                )
            self._store.remove(LineageEntity, entity.name)
        return {f"{kind.capitalize()}Arn": entity.name}

    def _list(self, kind: LineageKind, params: Params) -> Answer:
        word = kind.capitalize()
        found = [
            entity
            for entity in self._store.read_all(LineageEntity)
            if entity.kind == kind
            and is_created_within(entity.created, params)
            and params.get("SourceUri", entity.source["SourceUri"]) == entity.source["SourceUri"]
            and params.get(f"{word}Type", entity.type) == entity.type
        ]
        by_name = params.get("SortBy") == "Name"
        page = make_page(
            found,
            newest_first(params),
            key=lambda e: (e.title if by_name else e.created, e.name),
        )
        left_out = {"Properties", "Description"}
        summaries = [
            {key: value for key, value in self._show(entity).items() if key not in left_out}
            for entity in page.rows
        ]
        return {f"{word}Summaries": summaries, **page.more}

    # ---- associations

    def _associate(self, params: Params) -> Answer:
        source, target = params["SourceArn"], params["DestinationArn"]
        with self._store.transaction():
            for arn in (source, target):
                self._require(arn)
            # Deeper than any graph here: a cycle must not be missed for its length.
            if source.lower() == target.lower() or source.lower() in set(
                self._walk([target], "Descendants", 10_000)
            ):
                raise validation(f"An association from '{source}' to '{target}' makes a cycle.")
            kind = params.get("AssociationType", "AssociatedWith")
            link = Link(source=source, target=target, kind=kind, created=time.time())
            if not self._store.link(link):
                raise validation(f"An association from '{source}' to '{target}' already exists.")
        return {"SourceArn": source, "DestinationArn": target}

    def _disassociate(self, params: Params) -> Answer:
        source, target = params["SourceArn"], params["DestinationArn"]
        if not self._store.unlink(source, target):
            raise resource_not_found(f"There is no association from '{source}' to '{target}'.")
        return {"SourceArn": source, "DestinationArn": target}

    def _require(self, arn: str) -> None:
        found = parse_arn(arn)
        if found is None:
            raise validation(f"'{arn}' is not the ARN of a lineage entity or trial component.")
        with refusing("Lineage entity", arn):
            self._store.read(*found)

    def _edges(self, *, source: str | None = None, target: str | None = None) -> list[Link]:
        # That a run is a member of a trial is a link of the store, too, but not of lineage.
        edges = self._store.links(source=source, target=target)
        return [edge for edge in edges if edge.kind != MEMBER]

    def _list_associations(self, params: Params) -> Answer:
        edges = self._edges(source=params.get("SourceArn"), target=params.get("DestinationArn"))
        names = self._names()
        shown = [
            self._show_edge(edge, names)
            for edge in edges
            if is_created_within(edge.created, params)
        ]
        for member in ("SourceType", "DestinationType", "AssociationType"):
            if member in params:
                shown = [each for each in shown if each[member] == params[member]]
        order = params.get("SortBy", "CreationTime")
        page = make_page(
            shown,
            newest_first(params),
            key=lambda each: (each[order], each["SourceArn"], each["DestinationArn"]),
        )
        return page.answer("AssociationSummaries")

    def _names(self) -> dict[str, tuple[str, str]]:
        """ARN → type and name of everything in the graph."""
        entities = self._store.read_all(LineageEntity)
        runs = self._store.read_all(Run)
        return {
            **{entity.name: (entity.type, entity.title) for entity in entities},
            **{make_arn(Run, run.name): (run.source_type or _COMPONENT, run.name) for run in runs},
        }

    def _show_edge(self, edge: Link, names: Mapping[str, tuple[str, str]]) -> Answer:
        source, target = names.get(edge.source, ("", "")), names.get(edge.target, ("", ""))
        return {
            "SourceArn": edge.source,
            "DestinationArn": edge.target,
            "SourceType": source[0],
            "DestinationType": target[0],
            "AssociationType": edge.kind,
            "SourceName": source[1],
            "DestinationName": target[1],
            "CreationTime": edge.created,
            "CreatedBy": {},
        }

    # ---- the graph

    def _query(self, params: Params) -> Answer:
        starts = [arn.lower() for arn in params.get("StartArns", ())]
        if not starts:
            raise validation(
                "StartArns must have an ARN: queries over everything are not emulated."
            )
        for arn in starts:
            self._require(arn)
        direction = params.get("Direction", "Both")
        depth = params.get("MaxDepth", 10)
        reached = list(dict.fromkeys(self._walk(starts, direction, depth)))
        vertices = [vertex for vertex in map(self._show_vertex, reached) if vertex]
        keep = _make_filter(params.get("Filters", {}))
        kept = [shown for shown, record in vertices if keep(shown, record)]
        page = make_page(kept, {**params, "SortOrder": "Ascending"}, key=lambda v: (v["Arn"],))
        known = {*reached, *starts}
        edges = [
            {"SourceArn": edge.source, "DestinationArn": edge.target, "AssociationType": edge.kind}
            for arn in known
            for edge in self._edges(source=arn)
            if edge.target in known
        ]
        # Empty and not left out: sagemaker.lineage reads the list in any case.
        is_wanted = params.get("IncludeEdges", True)
        return {**page.answer("Vertices"), "Edges": edges if is_wanted else []}

    def _walk(self, starts: list[str], direction: str, depth: int) -> Iterator[str]:
        """Everything that can be reached, the start left out; each level once."""
        ways: list[Callable[[str], list[str]]] = []
        if direction in ("Descendants", "Both"):
            ways.append(lambda arn: [edge.target for edge in self._edges(source=arn)])
        if direction in ("Ascendants", "Both"):
            ways.append(lambda arn: [edge.source for edge in self._edges(target=arn)])
        seen = {arn.lower() for arn in starts}
        for way in ways:  # what others have made of my input is neither above nor below me
            level = list(seen & {arn.lower() for arn in starts})
            known = set(level)
            for _ in range(depth):
                level = [arn for at in level for arn in way(at) if arn not in known]
                level = list(dict.fromkeys(level))
                if not level:
                    break
                known.update(level)
                yield from level

    def _show_vertex(self, arn: str) -> tuple[Answer, Record] | None:
        found = parse_arn(arn)
        if found is None:
            return None
        try:
            record = self._store.read(*found)
        except RecordMissing:
            return None
        if isinstance(record, LineageEntity):
            shown = {"Arn": arn, "Type": record.type, "LineageType": record.kind.capitalize()}
        else:
            type_ = record.source_type if isinstance(record, Run) else ""
            shown = {"Arn": arn, "Type": type_ or _COMPONENT, "LineageType": _COMPONENT}
        return shown, record


def _make_filter(filters: Params) -> Callable[[Answer, Record], bool]:
    changed = {
        "CreatedAfter": filters.get("ModifiedAfter", float("-inf")),
        "CreatedBefore": filters.get("ModifiedBefore", float("inf")),
    }

    def keep(vertex: Answer, record: Record) -> bool:
        properties = record.properties if isinstance(record, LineageEntity) else {}
        return (
            vertex["Type"] in filters.get("Types", (vertex["Type"],))
            and vertex["LineageType"] in filters.get("LineageTypes", (vertex["LineageType"],))
            and is_created_within(record.created, filters)
            and is_created_within(record.modified, changed)
            and filters.get("Properties", {}).items() <= properties.items()
        )

    return keep

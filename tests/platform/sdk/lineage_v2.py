"""What a user of `sagemaker.lineage` asks about a job; the last line says what was seen."""

from __future__ import annotations

import json
import sys

import boto3
from sagemaker import Session
from sagemaker.lineage.action import Action
from sagemaker.lineage.artifact import Artifact
from sagemaker.lineage.association import Association
from sagemaker.lineage.context import Context
from sagemaker.lineage.query import (
    LineageEntityEnum,
    LineageFilter,
    LineageQuery,
    LineageQueryDirectionEnum,
    LineageSourceEnum,
)
from sagemaker.lineage.visualizer import LineageTableVisualizer

data, model, component = sys.argv[1:]
session = Session(boto3.Session())
(dataset,) = Artifact.list(source_uri=data, sagemaker_session=session)
(made,) = Artifact.list(source_uri=model, sagemaker_session=session)
query = LineageQuery(session)
models = query.query(
    start_arns=[dataset.artifact_arn],
    query_filter=LineageFilter(
        entities=[LineageEntityEnum.ARTIFACT], sources=[LineageSourceEnum.MODEL]
    ),
    direction=LineageQueryDirectionEnum.DESCENDANTS,
    include_edges=False,
)
above = query.query(start_arns=[made.artifact_arn], direction=LineageQueryDirectionEnum.ASCENDANTS)
table = LineageTableVisualizer(session).show(trial_component_name=component)
report = Artifact.create(
    artifact_name="report", source_uri="s3://bucket/report.html", artifact_type="Report",
    properties={"author": "a"}, sagemaker_session=session,
)  # fmt: skip
report.properties["author"] = "b"
report.save()
Association.create(
    source_arn=made.artifact_arn, destination_arn=report.artifact_arn,
    association_type="ContributedTo", sagemaker_session=session,
)  # fmt: skip
Action.create(
    action_name="review", source_uri="s3://bucket/review", action_type="Approval",
    status="Completed", sagemaker_session=session,
)  # fmt: skip
Context.create(
    context_name="release", source_uri="s3://bucket/release", context_type="Release",
    sagemaker_session=session,
)  # fmt: skip
associations = Association.list(source_arn=made.artifact_arn, sagemaker_session=session)
print(
    json.dumps(
        {
            "hash": dataset.source.source_types[0]["Value"],
            "models": [vertex.arn == made.artifact_arn for vertex in models.vertices],
            "is_artifact": [type(v.to_lineage_object()).__name__ for v in models.vertices],
            "above": sorted(vertex.lineage_source or "" for vertex in above.vertices),
            "table": sorted(json.loads(table["Type"].to_json(orient="values"))),
            "author": Artifact.load(report.artifact_arn, session).properties["author"],
            "associated": [each.destination_arn == report.artifact_arn for each in associations],
            "status": Action.load("review", session).status,
            "contexts": [each.context_name for each in Context.list(sagemaker_session=session)],
        }
    )
)

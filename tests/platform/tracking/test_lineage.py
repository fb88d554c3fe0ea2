"""The operations of lineage, called by boto3 on a real server, and the graph of a job."""

from __future__ import annotations

import pytest

from tests.platform.local_server import channel
from tests.platform.tracking.test_experiments import refusal


@pytest.fixture(scope="module")
def api(module_server):
    return module_server.boto("sagemaker")


def make_artifact(api, uri, **fields) -> str:
    source = {"SourceUri": uri, "SourceTypes": [{"SourceIdType": "S3ETag", "Value": "1"}]}
    return api.create_artifact(Source=source, ArtifactType="DataSet", **fields)["ArtifactArn"]


def test_entities_are_made_described_changed_listed_and_deleted(api):
    artifact = make_artifact(api, "s3://b/x", ArtifactName="data", Properties={"a": "1", "b": "2"})
    api.update_artifact(ArtifactArn=artifact, Properties={"c": "3"}, PropertiesToRemove=["a"])
    seen = api.describe_artifact(ArtifactArn=artifact)
    assert (seen["ArtifactName"], seen["Properties"]) == ("data", {"b": "2", "c": "3"})
    assert seen["Source"]["SourceTypes"][0]["Value"] == "1"
    code, text = refusal(
        api.create_artifact,
        Source=seen["Source"],
        ArtifactType="DataSet",
    )
    assert (code, "already exists" in text) == ("ValidationException", True)
    place = {"SourceUri": "s3://b/y"}
    api.create_context(ContextName="Endpoint", Source=place, ContextType="Endpoint")
    api.create_action(ActionName="deploy", Source=place, ActionType="Deploy", Status="InProgress")
    api.update_action(ActionName="Deploy", Status="Completed")
    assert api.describe_action(ActionName="deploy")["Status"] == "Completed"
    listed = api.list_contexts(SourceUri="s3://b/y")["ContextSummaries"]
    assert [each["ContextName"] for each in listed] == ["Endpoint"]
    assert api.list_artifacts(ArtifactType="Other")["ArtifactSummaries"] == []
    api.delete_context(ContextName="endpoint")
    assert refusal(api.describe_context, ContextName="Endpoint")[0] == "ResourceNotFound"
    api.delete_artifact(Source=seen["Source"])
    assert refusal(api.describe_artifact, ArtifactArn=artifact)[0] == "ResourceNotFound"


def test_associations_make_a_graph_without_cycles(api):
    a, b, c, d = (make_artifact(api, f"s3://graph/{name}") for name in "abcd")
    for source, target in ((a, b), (b, c), (a, d)):
        api.add_association(SourceArn=source, DestinationArn=target, AssociationType="DerivedFrom")
    again = {"SourceArn": a, "DestinationArn": b}
    assert "already exists" in refusal(api.add_association, **again)[1]
    assert "cycle" in refusal(api.add_association, SourceArn=c, DestinationArn=a)[1]
    missing = {"SourceArn": a, "DestinationArn": f"{a[:-3]}000"}
    assert refusal(api.add_association, **missing)[0] == "ResourceNotFound"
    assert refusal(api.delete_artifact, ArtifactArn=a)[0] == "ValidationException"
    (edge,) = api.list_associations(DestinationArn=c)["AssociationSummaries"]
    assert (edge["SourceArn"], edge["AssociationType"]) == (b, "DerivedFrom")

    def reach(start, direction, **more):
        answer = api.query_lineage(StartArns=[start], Direction=direction, **more)
        return {vertex["Arn"] for vertex in answer["Vertices"]}

    assert reach(a, "Descendants") == {b, c, d}
    assert reach(a, "Descendants", MaxDepth=1) == {b, d}
    assert reach(c, "Ascendants") == {a, b}
    assert reach(b, "Both") == {a, c}
    assert reach(a, "Descendants", Filters={"Types": ["Model"]}) == set()
    assert reach(a, "Descendants", Filters={"Properties": {"x": "y"}}) == set()
    edges = api.query_lineage(StartArns=[a], Direction="Descendants")["Edges"]
    assert {(each["SourceArn"], each["DestinationArn"]) for each in edges} == {
        *((a, b), (b, c), (a, d))
    }
    api.delete_association(SourceArn=a, DestinationArn=d)
    assert reach(a, "Descendants") == {b, c}


def test_a_jobs_data_and_image_lead_to_its_model(module_server, api):
    server = module_server
    data = server.put("data/lineage/a.csv", "1,2")
    server.submit("line", InputDataConfig=[channel("train", data)])
    job = server.wait("line")
    assert job["TrainingJobStatus"] == "Completed"
    model_uri = job["ModelArtifacts"]["S3ModelArtifacts"]
    (model,) = api.list_artifacts(SourceUri=model_uri)["ArtifactSummaries"]
    above = api.query_lineage(StartArns=[model["ArtifactArn"]], Direction="Ascendants")
    types = sorted(vertex["Type"] for vertex in above["Vertices"])
    assert types == ["DataSet", "Image", "SageMakerTrainingJob", "SourceCode"]
    (found,) = api.list_artifacts(SourceUri=data)["ArtifactSummaries"]
    assert found["Source"]["SourceTypes"][0]["Value"].startswith("sha256:")
    below = api.query_lineage(StartArns=[found["ArtifactArn"]], Direction="Descendants")
    assert model["ArtifactArn"] in {vertex["Arn"] for vertex in below["Vertices"]}

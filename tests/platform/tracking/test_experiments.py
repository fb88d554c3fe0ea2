"""The operations of Experiments, called by boto3 on a real server."""

from __future__ import annotations

import time

import pytest
from botocore.exceptions import ClientError

from tests.platform.local_server import channel


@pytest.fixture(scope="module")
def api(module_server):
    return module_server.boto("sagemaker")


def make_component(api, name, **fields):
    api.create_trial_component(TrialComponentName=name, **fields)
    return name


def names_of(api, expression, **more) -> list[str]:
    found = api.search(Resource="ExperimentTrialComponent", SearchExpression=expression, **more)[
        "Results"
    ]
    return [each["TrialComponent"]["TrialComponentName"] for each in found]


def where(*filters, **more):
    keys = ("Name", "Operator", "Value")
    return {"Filters": [dict(zip(keys, each, strict=False)) for each in filters], **more}


def refusal(call, **params) -> tuple[str, str]:
    with pytest.raises(ClientError) as refused:
        call(**params)
    error = refused.value.response["Error"]
    return error["Code"], error["Message"]


def test_experiment_trial_and_component_are_made_described_changed_and_deleted(api):
    api.create_experiment(ExperimentName="exp-A", Description="first")
    api.create_trial(TrialName="trial-A", ExperimentName="EXP-a")
    parameters = {"lr": {"NumberValue": 0.1}, "opt": {"StringValue": "adam"}}
    make_component(
        api,
        "comp-a",
        Parameters=parameters,
        InputArtifacts={"train": {"Value": "s3://b/k", "MediaType": "text/csv"}},
        Status={"PrimaryStatus": "InProgress"},
    )
    api.associate_trial_component(TrialComponentName="comp-a", TrialName="trial-A")
    api.update_trial_component(
        TrialComponentName="comp-a",
        Parameters={"lr": {"NumberValue": 0.2}},
        ParametersToRemove=["opt"],
        Status={"PrimaryStatus": "Completed"},
        EndTime=1_700_000_000,
    )
    seen = api.describe_trial_component(TrialComponentName="comp-a")
    assert seen["Parameters"] == {"lr": {"NumberValue": 0.2}}
    assert seen["InputArtifacts"]["train"]["MediaType"] == "text/csv"
    assert (seen["Status"]["PrimaryStatus"], seen["EndTime"].year) == ("Completed", 2023)
    listed = api.list_trial_components(TrialName="trial-A")["TrialComponentSummaries"]
    assert [each["TrialComponentName"] for each in listed] == ["comp-a"]
    assert api.list_trials(TrialComponentName="comp-a")["TrialSummaries"][0]["TrialName"] == (
        "trial-A"
    )
    assert refusal(api.delete_experiment, ExperimentName="exp-A")[0] == "ValidationException"
    assert refusal(api.delete_trial, TrialName="trial-A")[0] == "ValidationException"
    code, text = refusal(api.delete_trial_component, TrialComponentName="comp-a")
    assert (code, "disassociate" in text) == ("ValidationException", True)
    api.disassociate_trial_component(TrialComponentName="comp-a", TrialName="trial-A")
    api.delete_trial_component(TrialComponentName="comp-a")
    api.delete_trial(TrialName="trial-A")
    api.delete_experiment(ExperimentName="exp-A")
    assert refusal(api.describe_experiment, ExperimentName="exp-A")[0] == "ResourceNotFound"


def test_a_name_that_exists_is_refused_as_the_sdks_expect(api):
    api.create_experiment(ExperimentName="twice")
    api.create_trial(TrialName="twice", ExperimentName="twice")
    make_component(api, "twice")
    for call, params in (
        (api.create_experiment, {"ExperimentName": "Twice"}),
        (api.create_trial, {"TrialName": "twice", "ExperimentName": "twice"}),
        (api.create_trial_component, {"TrialComponentName": "twice"}),
    ):
        code, text = refusal(call, **params)
        assert (code, "already exists" in text) == ("ValidationException", True)


def test_bad_input_is_refused(api):
    no = "does-not-exist"
    missing = (
        (api.create_trial, {"TrialName": "t", "ExperimentName": no}),
        (api.describe_trial_component, {"TrialComponentName": no}),
        (api.associate_trial_component, {"TrialComponentName": no, "TrialName": no}),
        (api.list_trials, {"ExperimentName": no}),
        (api.update_trial, {"TrialName": no}),
    )
    for call, params in missing:
        assert refusal(call, **params)[0] == "ResourceNotFound", params
    for name in ("-a", "a_b", "a" * 121):
        assert refusal(api.create_experiment, ExperimentName=name)[0] == "ValidationException"
    many = {f"p{i}": {"NumberValue": 1.0} for i in range(200)}
    make_component(api, "full", Parameters=many)
    more = {f"q{i}": {"NumberValue": 1.0} for i in range(101)}
    code, text = refusal(api.update_trial_component, TrialComponentName="full", Parameters=more)
    assert (code, "300" in text) == ("ValidationException", True)
    assert len(api.describe_trial_component(TrialComponentName="full")["Parameters"]) == 200
    artifacts = {f"a{i}": {"Value": "s3://bucket/key"} for i in range(40)}
    others = {f"b{i}": {"Value": "s3://bucket/key"} for i in range(40)}
    make_component(api, "busy", InputArtifacts=artifacts, OutputArtifacts=artifacts)
    for part in ("InputArtifacts", "OutputArtifacts"):
        code, text = refusal(
            api.update_trial_component, TrialComponentName="busy", **{part: others}
        )
        assert (code, "60" in text) == ("ValidationException", True)
    assert refusal(api.list_experiments, NextToken="x")[0] == "ValidationException"


def test_lists_are_sorted_and_paged(api):
    for number in range(7):
        api.create_experiment(ExperimentName=f"paged-{number}")
    pages = api.get_paginator("list_experiments").paginate(
        SortBy="Name", SortOrder="Ascending", PaginationConfig={"PageSize": 3}
    )
    names = [each["ExperimentName"] for page in pages for each in page["ExperimentSummaries"]]
    assert [name for name in names if name.startswith("paged")] == [f"paged-{n}" for n in range(7)]
    newest = api.list_experiments(MaxResults=1)["ExperimentSummaries"][0]
    assert newest["ExperimentName"] == "paged-6"


def test_tags_of_experiments_trials_and_components(api):
    arn = api.create_experiment(ExperimentName="tagged", Tags=[{"Key": "a", "Value": "1"}])[
        "ExperimentArn"
    ]
    api.add_tags(ResourceArn=arn, Tags=[{"Key": "b", "Value": "2"}])
    api.delete_tags(ResourceArn=arn, TagKeys=["a"])
    assert api.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "b", "Value": "2"}]
    assert refusal(api.list_tags, ResourceArn=f"{arn}-no")[0] == "ResourceNotFound"


@pytest.fixture(scope="module")
def searched(api, module_server):
    api.create_experiment(ExperimentName="sought")
    metrics = module_server.boto("sagemaker-metrics")
    for number, optimizer in enumerate(("sgd", "adam", "adam")):
        name = make_component(
            api,
            f"sought-{number}",
            Parameters={
                "lr": {"NumberValue": 10.0**-number},
                "opt": {"StringValue": optimizer},
                "a.b": {"NumberValue": number},
            },
            Tags=[{"Key": "team", "Value": f"t{number % 2}"}],
        )
        api.create_trial(TrialName=f"sought-{number}", ExperimentName="sought")
        api.associate_trial_component(TrialComponentName=name, TrialName=f"sought-{number}")
        metrics.batch_put_metrics(
            TrialComponentName=name,
            MetricData=[
                {
                    "MetricName": "val:acc",
                    "Timestamp": 1000 + i,
                    "Step": i,
                    "Value": number + i / 10,
                }
                for i in range(3)
            ],
        )
    return api


def test_search_filters(searched):
    mine = ("Parents.ExperimentName", "Equals", "sought")

    def found(*filters, **more):
        return sorted(names_of(searched, where(mine, *filters, **more)))

    assert found() == ["sought-0", "sought-1", "sought-2"]
    assert found(("Parameters.lr", "LessThan", "0.5")) == ["sought-1", "sought-2"]
    assert found(("Parameters.lr", "GreaterThanOrEqualTo", "0.1")) == ["sought-0", "sought-1"]
    assert found(("Parameters.opt", "NotEquals", "adam")) == ["sought-0"]
    assert found(("Parameters.a.b", "Equals", "2")) == ["sought-2"]
    assert found(("Metrics.val:acc.max", "GreaterThan", "1")) == ["sought-1", "sought-2"]
    assert found(("Tags.team", "In", "t1,t9")) == ["sought-1"]
    assert found(("TrialComponentName", "Contains", "-2")) == ["sought-2"]
    assert found(("Parameters.none", "Exists")) == []
    assert len(found(("Parameters.none", "NotExists"))) == 3
    assert len(found(("CreationTime", "GreaterThan", "2020-01-01T00:00:00Z"))) == 3
    either = [where(("Parameters.lr", "Equals", "1")), where(("Parameters.lr", "Equals", "0.01"))]
    assert found(SubExpressions=[{"SubExpressions": either, "Operator": "Or"}]) == [
        "sought-0",
        "sought-2",
    ]
    nested = [
        {
            "NestedPropertyName": "Parents",
            "Filters": [
                {"Name": "Parents.TrialName", "Operator": "Equals", "Value": "sought-1"},
                {"Name": "Parents.ExperimentName", "Operator": "Equals", "Value": "sought"},
            ],
        }
    ]
    assert found(NestedFilters=nested) == ["sought-1"]


def test_search_sorts_and_pages(searched):
    mine = where(("Parents.ExperimentName", "Equals", "sought"))
    by_metric = names_of(searched, mine, SortBy="metrics.val:acc.max", SortOrder="Ascending")
    assert by_metric == ["sought-0", "sought-1", "sought-2"]
    names, token = [], {}
    while True:
        page = searched.search(
            Resource="ExperimentTrialComponent",
            SearchExpression=mine,
            SortBy="Parameters.lr",
            MaxResults=2,
            **token,
        )
        names += [each["TrialComponent"]["TrialComponentName"] for each in page["Results"]]
        if "NextToken" not in page:
            break
        token = {"NextToken": page["NextToken"]}
    assert names == ["sought-0", "sought-1", "sought-2"]
    assert searched.search(Resource="Experiment")["TotalHits"]["Value"] >= 1
    assert refusal(searched.search, Resource="Endpoint")[0] == "ValidationException"


def test_metrics_are_put_and_read(searched, module_server):
    metrics = module_server.boto("sagemaker-metrics")
    arn = searched.describe_trial_component(TrialComponentName="sought-1")["TrialComponentArn"]
    query = {"MetricName": "val:acc", "ResourceArn": arn, "Period": "IterationNumber"}
    (answer,) = metrics.batch_get_metrics(
        MetricQueries=[{**query, "MetricStat": "Last", "XAxisType": "IterationNumber"}]
    )["MetricQueryResults"]
    assert (answer["XAxisValues"], answer["MetricValues"]) == ([0, 1, 2], [1.0, 1.1, 1.2])
    (answer,) = metrics.batch_get_metrics(
        MetricQueries=[
            {**query, "Period": "OneHour", "MetricStat": "Max", "XAxisType": "Timestamp"}
        ]
    )["MetricQueryResults"]
    assert (answer["XAxisValues"], answer["MetricValues"]) == ([0], [1.2])
    (seen,) = searched.describe_trial_component(TrialComponentName="sought-1")["Metrics"]
    assert (seen["Min"], seen["Max"], seen["Last"], seen["Count"]) == (1.0, 1.2, 1.2, 3)
    point = {"MetricName": "x", "Timestamp": 1, "Value": 1.0}
    bad = metrics.batch_put_metrics(
        TrialComponentName="sought-1",
        MetricData=[
            {"MetricName": "x", "Timestamp": 1, "Value": float("nan")},
            {"MetricName": "x", "Timestamp": 1, "Value": 1.0},
        ],
    )
    assert bad["Errors"] == [{"Code": "VALIDATION_ERROR", "MetricIndex": 0}]
    # A value without a step gets its number, counted over all calls.
    more = {"TrialComponentName": "sought-1", "MetricData": [{**point, "Value": 2.0}]}
    metrics.batch_put_metrics(**more)
    numbered = {"MetricName": "x", "MetricStat": "Last", "XAxisType": "IterationNumber"}
    (answer,) = metrics.batch_get_metrics(MetricQueries=[{**query, **numbered}])[
        "MetricQueryResults"
    ]
    assert (answer["XAxisValues"], answer["MetricValues"]) == ([0, 1], [1.0, 2.0])
    unknown = {"TrialComponentName": "none", "MetricData": [point]}
    assert refusal(metrics.batch_put_metrics, **unknown)[0] == "ResourceNotFound"


def test_a_job_becomes_a_run_with_its_metrics_artifacts_and_lineage(module_server):
    server = module_server
    api = server.boto("sagemaker")
    data = server.put("data/tracked/a.csv", "1,2")
    script = "for i in range(3): print(f'loss={1 / (i + 1)}')"
    server.submit(
        "Tracked-Job",
        script,
        HyperParameters={"lr": "0.5", "name": '"quoted"'},
        AlgorithmSpecification={
            "MetricDefinitions": [{"Name": "loss", "Regex": "loss=([0-9.]+)"}]
        },
        InputDataConfig=[channel("train", data)],
        ExperimentConfig={"ExperimentName": "jobs-exp", "TrialName": "jobs-trial"},
    )
    assert server.wait("Tracked-Job")["TrainingJobStatus"] == "Completed"
    (found,) = api.search(
        Resource="ExperimentTrialComponent",
        SearchExpression=where(("Parents.ExperimentName", "Equals", "jobs-exp")),
    )["Results"]
    run = found["TrialComponent"]
    assert run["TrialComponentName"] == "Tracked-Job-aws-training-job"
    assert run["Source"]["SourceArn"].endswith("training-job/tracked-job")
    assert run["Status"]["PrimaryStatus"] == "Completed"
    assert run["Parameters"]["lr"] == {"NumberValue": 0.5}
    assert run["Parameters"]["name"] == {"StringValue": "quoted"}
    (loss,) = run["Metrics"]
    assert (loss["Count"], loss["Max"], loss["Last"]) == (3, 1.0, pytest.approx(1 / 3))
    assert run["InputArtifacts"]["train"]["Value"] == data
    assert run["OutputArtifacts"]["SageMaker.ModelArtifact"]["Value"].endswith("model.tar.gz")
    arn = run["Source"]["SourceArn"]
    listed = api.list_trial_components(SourceArn=arn)["TrialComponentSummaries"]
    assert [each["TrialComponentName"] for each in listed] == [run["TrialComponentName"]]
    jobs = api.search(
        Resource="TrainingJob",
        SearchExpression=where(("HyperParameters.lr", "Equals", "0.5")),
    )["Results"]
    assert [each["TrainingJob"]["TrainingJobName"] for each in jobs] == ["Tracked-Job"]
    said = [line for line in server.log("Tracked-Job") if "ExperimentConfig" in line]
    assert ["'jobs-exp', which is new" in said[0], "'jobs-trial', which is new" in said[1]] == [
        True,
        True,
    ]
    api.create_experiment(ExperimentName="other-exp")
    for name, config, words in (
        ("quiet", {"ExperimentName": "JOBS-exp", "TrialName": "jobs-trial"}, None),
        ("astray", {"ExperimentName": "other-exp", "TrialName": "jobs-trial"}, "is in 'jobs-exp'"),
        ("late", {"RunName": "tracked-job-aws-training-job"}, "which is another job's"),
        ("capitals", {"ExperimentName": "JOBS-exp"}, None),
    ):
        server.submit(name, ExperimentConfig=config)
        server.wait(name)
        said = [line for line in server.log(name) if "ExperimentConfig" in line]
        assert len(said) == (words is not None), said
        assert not words or words in said[0]
    listed = api.list_trial_components(ExperimentName="jobs-exp")["TrialComponentSummaries"]
    assert "capitals-aws-training-job" in {each["TrialComponentName"] for each in listed}


def test_a_killed_server_loses_and_doubles_no_point(make_server):
    server = make_server().start()
    script = """
        import time
        for i in range(300):
            print(f'loss={i}', flush=True)
            time.sleep(0.01)
    """
    definitions = [{"Name": "loss", "Regex": "loss=([0-9]+)"}]
    server.submit("killed", script, AlgorithmSpecification={"MetricDefinitions": definitions})

    def count() -> int:
        name = "killed-aws-training-job"
        try:
            found = server.boto("sagemaker").describe_trial_component(TrialComponentName=name)
        except ClientError:
            return 0
        return sum(each["Count"] for each in found["Metrics"])

    deadline = time.monotonic() + 120
    for wanted in (1, 60, 120):
        while count() < wanted:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        server.kill()
        server.start()
    server.wait("killed")
    assert count() == 300


def test_a_job_made_again_is_another_run(module_server):
    server, api = module_server, module_server.boto("sagemaker")
    name = "again-aws-training-job"
    for lr in ("1", "2"):
        server.submit("again", HyperParameters={"lr": lr})
        server.wait("again")
        assert api.describe_trial_component(TrialComponentName=name)["Parameters"]["lr"] == {
            "NumberValue": 1.0
        }
        api.delete_training_job(TrainingJobName="again")
    second = api.describe_trial_component(TrialComponentName="again-2-aws-training-job")
    assert second["Parameters"]["lr"] == {"NumberValue": 2.0}

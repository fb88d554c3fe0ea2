"""What DescribeTrainingJob says of a job's rules, from what its evaluator wrote."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel

from stoker.cli.client.display import render_summary
from stoker.platform.api.service_model import require_valid
from stoker.platform.data.rule_output import sort_findings
from stoker.platform.jobs.changes import (
    begin_attempt,
    completed,
    conclude,
    end,
    failed,
    interrupt,
    new_job,
    stopped,
)
from stoker.platform.jobs.describe import describe
from stoker.platform.jobs.hosts import make_rules_variables
from stoker.platform.jobs.rule_statuses import make_rule_job_arn, note_statuses, parse_statuses
from stoker.platform.jobs.store import Store
from stoker.platform.model.faults import ApiFault
from stoker.platform.model.request import read_request
from stoker.platform.model.root import Root
from tests.platform.training_requests import make_request


def rule(name, **fields):
    return {"RuleConfigurationName": name, "RuleEvaluatorImage": "any", **fields}


def new(*names, **fields):
    fields = {"DebugRuleConfigurations": [rule(name) for name in names], **fields}
    return begin_attempt(new_job("job", make_request(**fields), {}, 1.0), 2.0)


def said(**statuses):
    rules = [
        {"name": name, "status": status, "details": f"{name} says so"}
        for name, status in statuses.items()
    ]
    return json.dumps({"version": 1, "rules": rules}).encode()


def note(record, now=5.0, **statuses):
    return note_statuses(record, parse_statuses(said(**statuses), now))


def shown(record):
    statuses = describe(record)["DebugRuleEvaluationStatuses"]
    return {each["RuleConfigurationName"]: each["RuleEvaluationStatus"] for each in statuses}


def details(record):
    statuses = describe(record)["DebugRuleEvaluationStatuses"]
    return {each["RuleConfigurationName"]: each.get("StatusDetails") for each in statuses}


def finish(record, verdict):
    return end(conclude(record, verdict, "cleaning", 8.0), 9.0)


def test_a_job_without_rules_answers_nothing_about_them():
    answer = describe(finish(new(), completed()))
    assert not [field for field in answer if field.endswith("EvaluationStatuses")]


def test_rules_are_in_progress_until_the_evaluator_says_otherwise():
    record = new("a", "b")
    first, _ = describe(record)["DebugRuleEvaluationStatuses"]
    assert first.pop("RuleEvaluationJobArn") == make_rule_job_arn("job", "a")
    assert first == {
        "RuleConfigurationName": "a",
        "RuleEvaluationStatus": "InProgress",
        "LastModifiedTime": 1.0,
    }
    record = note(record, b="IssuesFound")
    assert shown(record) == {"a": "InProgress", "b": "IssuesFound"}
    second = describe(record)["DebugRuleEvaluationStatuses"][1]
    assert second["StatusDetails"] == "b says so"
    assert second["LastModifiedTime"] == 5.0


def test_nothing_new_changes_nothing():
    record = note(new("a"), a="InProgress")
    assert note(record, now=7.0, a="InProgress") is record


def test_a_rule_that_the_request_does_not_have_is_not_shown():
    assert note(new("a"), other="Error") == new("a")


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"{", b"[]", b"[1]", b"null", b'"x"', b"[" * 100_000),
        *(b'{"rules": 1}', b'{"rules": null}', b'{"rules": [1, null]}', b'{"rules": {"a": 1}}'),
        *(b'{"rules": [{"name": 1, "status": "Error"}]}', b'{"rules": [{"name": "a"}]}'),
        *(b'{"rules": [{"name": "a", "status": "Fine"}]}', b"\xff\xfe"),
        b'{"rules": [{"name": "a", "status": ["Error"]}]}',
    ],
)
def test_whatever_a_job_writes_there_does_no_harm(text):
    assert parse_statuses(text, 1.0) == ()


def test_long_details_are_cut_to_what_the_service_allows():
    entry = {"name": "a", "status": "Error", "details": "x" * 5000}
    (found,) = parse_statuses(json.dumps({"rules": [entry]}).encode(), 1.0)
    assert len(found.details) == 1024


def test_an_issue_stays_found_over_interruptions_and_the_others_continue():
    record = note(new("a", "b", "c"), a="IssuesFound", b="NoIssuesFound", c="Error")
    for step in (interrupt, begin_attempt):
        record = step(record, 6.0)
        assert shown(record) == {"a": "IssuesFound", "b": "InProgress", "c": "InProgress"}
    record = note(record, a="NoIssuesFound", b="IssuesFound", c="NoIssuesFound")
    assert shown(record) == {"a": "IssuesFound", "b": "IssuesFound", "c": "NoIssuesFound"}
    assert details(record)["a"] == "a says so"


def test_an_image_without_an_evaluator_is_an_error_with_words():
    record = finish(new("a"), completed())
    assert shown(record) == {"a": "Error"}
    assert "its image has no evaluator" in details(record)["a"]


def test_an_evaluator_that_died_is_an_error_with_words():
    record = finish(note(new("a", "b"), a="InProgress", b="IssuesFound"), completed())
    assert shown(record) == {"a": "Error", "b": "IssuesFound"}
    assert "the evaluator ended before it had evaluated every step" in details(record)["a"]


def test_the_rules_of_a_stopped_job_are_stopped_unless_they_had_their_say():
    record = note(new("a", "b", "c"), a="InProgress", b="NoIssuesFound")
    assert shown(finish(record, stopped("asked"))) == {
        **{"a": "Stopped", "b": "NoIssuesFound", "c": "Stopped"},
    }


def test_the_rules_of_a_job_that_failed_before_it_trained_say_so():
    record = finish(new("a"), failed("ClientError: no such image"))
    assert details(record)["a"] == "the job ended before this rule was evaluated"


def test_rules_of_the_profiler_have_a_list_of_their_own_and_the_same_evaluator():
    record = new("a", ProfilerRuleConfigurations=[rule("report")])
    record = note(record, report="IssuesFound")
    answer = describe(record)
    (status,) = answer["ProfilerRuleEvaluationStatuses"]
    assert status["RuleEvaluationStatus"] == "IssuesFound"
    assert [s["RuleConfigurationName"] for s in answer["DebugRuleEvaluationStatuses"]] == ["a"]
    with pytest.raises(ApiFault, match="both have 'a'"):
        read_request(new("a", ProfilerRuleConfigurations=[rule("a")]).request)


@pytest.mark.parametrize("name", ["VanishingGradient", "x" * 256, "a rule/of mine_2", "Ü", "-"])
def test_the_name_of_a_rules_job_is_one_the_service_would_give(name):
    arn = make_rule_job_arn("My-Job-" + "9" * 50, name)
    model = ServiceModel(Loader().load_service_model("sagemaker", "service-2"))
    assert re.fullmatch(model.shape_for("ProcessingJobArn").metadata["pattern"], arn)
    # What AWS's notebooks do to find the log of a rule.
    job = f"{'My-Job-' + '9' * 50:.26}-{'VanishingGradient':.26}-{arn[-8:]}"
    assert name != "VanishingGradient" or arn.endswith(f"/{job.lower()}")


def test_statuses_survive_in_the_store(tmp_path):
    store = Store(tmp_path / "jobs.sqlite")
    record = note(new("a"), a="IssuesFound")
    store.add(record)
    assert shown(store.read("job")) == {"a": "IssuesFound"}
    store.change("job", lambda r: replace(r, modified=9.0))
    store.close()
    store = Store(tmp_path / "jobs.sqlite")
    assert shown(store.read("job")) == {"a": "IssuesFound"}
    store.close()


def test_findings_are_sorted_by_rule_and_half_a_line_is_left_out():
    lines = [
        b'{"rule": "a", "step": 1}',
        b'{"rule": "b"}',
        b"7",
        b'{"rule": 3}',
        b'{"rule": "a'[:9],
    ]
    assert sort_findings(lines) == {
        "a": [b'{"rule": "a", "step": 1}\n'],
        "b": [b'{"rule": "b"}\n'],
    }


def test_the_rules_travel_in_the_shape_of_the_api():
    request = read_request(
        make_request(
            DebugRuleConfigurations=[
                rule("a", RuleParameters={"rule_to_invoke": "AllZero", "threshold": "50"}),
                rule("b"),
            ]
        )
    )
    variables = make_rules_variables(request)
    assert json.loads(variables["STOKER_RULES"]) == [
        {
            "RuleConfigurationName": "a",
            "RuleParameters": {"rule_to_invoke": "AllZero", "threshold": "50"},
        },
        {"RuleConfigurationName": "b", "RuleParameters": {}},
    ]
    assert make_rules_variables(read_request(make_request())) == {}


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ([rule("a"), rule("a")], "DebugRuleConfigurations must have unique names, but 'a' is"),
        ([rule(f"r{n}") for n in range(21)], "Member must have length less than or equal to 20"),
        ([rule("../../x")], "'../../x' is not a rule's name"),
        ([rule("a", S3OutputPath="s3://bucket/../x")], "must have no '.' or '..'"),
        ([rule("a", RuleParameters={str(n): "" for n in range(101)})], "or equal to 100"),
    ],
    ids=["repeated", "too many", "climbing", "climbing place", "too many parameters"],
)
def test_rules_that_the_service_refuses_are_refused(rules, text):
    request = make_request(DebugRuleConfigurations=rules)
    with pytest.raises(ApiFault) as caught:
        read_request(require_valid("sagemaker", "CreateTrainingJob", request))
    assert caught.value.code == "ValidationException"
    assert text in caught.value.message


def test_the_terminal_shows_how_each_rule_ended(tmp_path):
    words = "RuleEvaluationConditionMet: Evaluation of the rule a at step 30 resulted in the …\n"
    record = note(new("a", "b", "c"), a="IssuesFound", b="NoIssuesFound", c="Error")
    answer = describe(finish(record, completed()))
    answer["DebugRuleEvaluationStatuses"][0]["StatusDetails"] = words
    answer["DebugRuleEvaluationStatuses"][1].pop("StatusDetails")
    lines = render_summary(answer, Root(tmp_path))
    (rules,) = [line for line in lines if line.startswith("  rules")]
    assert [line.strip() for line in rules.splitlines()] == [
        "rules   a IssuesFound at step 30",
        "b NoIssuesFound",
        "c Error (c says so)",
    ]

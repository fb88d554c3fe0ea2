"""Tuning jobs that cannot work are refused, with the service's texts and a fix."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from stoker.platform.model.faults import ApiFault
from stoker.platform.tuning.request import read_tuning_request
from tests.platform.tuning.tuning_jobs import OBJECTIVE, make_request

PLACE = SimpleNamespace(image="any/image:1", put=lambda key, _text: f"s3://bucket/{key}")
CATEGORIES = {"CategoricalParameterRanges": [{"Name": "opt", "Values": ["a", "b", "c"]}]}


def make_parents(*parents):
    return {"ParentHyperParameterTuningJobs": list(parents), "WarmStartType": "TransferLearning"}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"config": {"HyperParameterTuningJobObjective": {**OBJECTIVE, "MetricName": "x"}}},
            "A metric is required for this hyperparameter tuning job objective",
        ),
        ({"config": {"HyperParameterTuningJobObjective": None}}, "An objective is required"),
        ({"config": {"ParameterRanges": {}}}, "at least one range"),
        (
            {"config": {"ParameterRanges": CATEGORIES}, "limits": {"MaxNumberOfTrainingJobs": 10}},
            r"enough combinations of hyperparameter ranges.*\[3.0\].*\[10\]",
        ),
        ({"config": {"Strategy": "Grid"}}, "categorical hyperparameters only"),
        ({"config": {"Strategy": "Hyperband"}}, "MaxResource parameter is not provided"),
        (
            {
                "config": {
                    "Strategy": "Hyperband",
                    "TrainingJobEarlyStoppingType": "Auto",
                    "StrategyConfig": {"HyperbandStrategyConfig": {"MaxResource": 9}},
                }
            },
            "must be Off with the strategy Hyperband",
        ),
        ({"definition": {"StaticHyperParameters": {"rate": "1"}}}, "both static and tunable"),
        ({"definition": {"ResourceConfig": None}}, "exactly one of ResourceConfig and"),
        ({"limits": {"MaxNumberOfTrainingJobs": None}}, "must have an end"),
        *(
            (
                {"config": {"TuningJobCompletionCriteria": {"TargetObjectiveMetricValue": value}}},
                "must be a finite number",
            )
            for value in (float("nan"), float("-inf"))
        ),
        ({"TrainingJobDefinition": None}, "exactly one of TrainingJobDefinition"),
        ({"WarmStartConfig": make_parents({})}, "must have a HyperParameterTuningJobName"),
        (
            {"WarmStartConfig": make_parents(*[{"HyperParameterTuningJobName": "a"}] * 2)},
            "names 'a' more than once",
        ),
        (
            {
                "config": {
                    "ParameterRanges": {
                        **CATEGORIES,
                        "AutoParameters": [{"Name": "lr", "ValueHint": "0.1"}],
                    }
                }
            },
            "only with the Autotune mode Enabled",
        ),
    ],
)
def test_requests_that_cannot_work_are_refused(changes, text):
    with pytest.raises(ApiFault, match=text) as refused:
        read_tuning_request(make_request(PLACE, "bad", **changes))
    assert refused.value.code == "ValidationException"


def test_a_regex_without_a_group_is_refused():
    request = make_request(PLACE, "bad")
    metric = request["TrainingJobDefinition"]["AlgorithmSpecification"]["MetricDefinitions"][0]
    metric["Regex"] = "val_acc=[0-9.]+"
    with pytest.raises(ApiFault, match="put parentheses around the number"):
        read_tuning_request(request)


@pytest.mark.parametrize(
    ("limits", "strategy"),
    [
        ({"MaxNumberOfTrainingJobs": 10_001}, "Random"),
        ({"MaxNumberOfTrainingJobs": 751}, "Bayesian"),
        ({"MaxParallelTrainingJobs": 101}, "Random"),
    ],
)
def test_more_than_the_quotas_is_refused(limits, strategy):
    request = make_request(PLACE, "bad", limits=limits, config={"Strategy": strategy})
    with pytest.raises(ApiFault, match="service limit") as refused:
        read_tuning_request(request)
    assert refused.value.code == "ResourceLimitExceeded"


def test_every_mistake_is_listed_at_once():
    ranges = {
        "ContinuousParameterRanges": [
            {"Name": "a", "MinValue": "2", "MaxValue": "1"},
            {"Name": "b", "MinValue": "0", "MaxValue": "1", "ScalingType": "Logarithmic"},
        ],
        "CategoricalParameterRanges": [{"Name": "a", "Values": ["one"]}],
    }
    with pytest.raises(ApiFault, match="4 validation errors detected") as refused:
        read_tuning_request(make_request(PLACE, "bad", config={"ParameterRanges": ranges}))
    assert "must be less than its MaxValue" in refused.value.message


def test_what_a_training_job_is_refused_for_a_tuning_job_is_refused_for():
    definition = {"StoppingCondition": {"MaxRuntimeInSeconds": 9, "MaxWaitTimeInSeconds": 9}}
    with pytest.raises(ApiFault, match="Invalid MaxWaitTimeInSeconds"):
        read_tuning_request(make_request(PLACE, "bad", definition=definition))

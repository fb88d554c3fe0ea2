"""Whatever fits the service's model is read, or refused in the service's words."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any

import botocore.session
from botocore.model import Shape
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker.platform.api.service_model import require_valid
from stoker.platform.model.faults import ApiFault
from stoker.platform.tuning.request import TuningRequest, read_tuning_request
from stoker.platform.tuning.state import TuningRecord
from stoker.platform.tuning.trials import make_study
from stoker.tuning.search import suggest
from stoker.tuning.study import Trial
from tests.platform.tuning.tuning_jobs import OBJECTIVE, RANGES, make_request

CONFIG = "HyperParameterTuningJobConfig"
OPERATION = "CreateHyperParameterTuningJob"
REFUSALS = ("ValidationException", "SerializationException", "ResourceLimitExceeded")
PLACE = SimpleNamespace(image="any/image:1", put=lambda key, _text: f"s3://bucket/{key}")
NUMBERS = ["0", "1", "-5", "0.9", "5e-324", "1e308", "-1e308", "0.9999999999999999", "1" * 250]
WORDS = [*NUMBERS, "nan", "inf", "", "a", "rate", "acc", "(", "([0-9.]+)", "s3://a/b", "é", "\0"]


@cache
def read_shape() -> Shape:
    model = botocore.session.Session().get_service_model("sagemaker")
    return model.operation_model(OPERATION).input_shape


def draw_value(draw: st.DrawFn, shape: Shape) -> Any:
    """A value of the shape; at its limits more often than not."""
    kind, limits = shape.type_name, shape.metadata
    if kind == "string":
        return draw(st.sampled_from(limits.get("enum") or WORDS))
    if kind in ("integer", "long"):
        return draw(st.sampled_from([limits.get("min", -1), 1, 2, limits.get("max", 10**30)]))
    if kind in ("float", "double"):
        return draw(st.sampled_from([0.5, -1e308, float("nan"), float("inf")]))
    if kind == "boolean":
        return draw(st.booleans())
    if kind == "list":
        count = draw(st.integers(limits.get("min", 0), limits.get("min", 0) + 2))
        return [draw_value(draw, shape.member) for _ in range(count)]
    if kind == "map":
        return {draw_value(draw, shape.key): draw_value(draw, shape.value)}
    kept = [n for n in shape.members if n in shape.required_members or draw(st.booleans())]
    return {name: draw_value(draw, shape.members[name]) for name in kept}


def find_places(shape: Shape, value: Any) -> Iterator[tuple[Any, Any, Shape]]:
    """Container, key and shape of all that is in a request, or could be."""
    if shape.type_name == "structure":
        for name, member in shape.members.items():
            yield value, name, member
            if name in value:
                yield from find_places(member, value[name])
    elif shape.type_name == "list":
        for index, each in enumerate(value):
            yield value, index, shape.member
            yield from find_places(shape.member, each)


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """A request that works, with a few members replaced by any others."""
    shape = read_shape()
    strategy = draw(st.sampled_from(["Bayesian", "Random", "Hyperband"]))
    definition: dict[str, Any] = {"StaticHyperParameters": {"epochs": "9"}}
    changes: dict[str, Any] = {"config": {"Strategy": strategy}, "definition": definition}
    request = copy.deepcopy(make_request(PLACE, "any", **changes))
    if draw(st.booleans()):
        config = request["HyperParameterTuningJobConfig"]
        del config["ParameterRanges"], config["HyperParameterTuningJobObjective"]
        own = {"DefinitionName": "a", "TuningObjective": OBJECTIVE, "HyperParameterRanges": RANGES}
        several = [{**request.pop("TrainingJobDefinition"), **copy.deepcopy(own)}]
        request["TrainingJobDefinitions"] = several
    for _ in range(draw(st.integers(1, 2))):
        places = list(find_places(shape, request))
        if draw(st.booleans()):  # the members of training jobs are most, and tested elsewhere
            config = request.get(CONFIG, {})
            inner = find_places(shape.members[CONFIG], config)
            places = [*((request, name, shape.members[name]) for name in shape.members), *inner]
        container, key, member = draw(st.sampled_from(places))
        container[key] = draw_value(draw, member)
    return request


def read(request: dict[str, Any]) -> tuple[dict[str, Any], TuningRequest] | None:
    """The request as the platform reads it; None if it is refused."""
    try:
        params = require_valid("sagemaker", OPERATION, request)
        return params, read_tuning_request(params)
    except ApiFault as fault:
        if fault.code not in REFUSALS:
            raise
        return None


@given(requests())
@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_request_of_the_model_is_read_or_refused(raw):
    found = read(raw)
    if found is None:
        return
    params, request = found
    json.dumps(params, allow_nan=False)  # the store's form
    record = TuningRecord(name="any", request=params, created=1.0, modified=1.0)
    for index, definition in enumerate(request.definitions):
        study, trials = make_study(record, request, index), []
        for number in range(1, 9):
            values = suggest(study, number, trials)
            if values is None:
                break
            assert definition.space.encode(values) is not None, values
            trials.append(Trial(number=number, parameters=values, objective=float(number)))

"""The page of a study: one file that opens offline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.pages.shell import make_page
from stoker.tuning.importance import estimate_importance
from stoker.tuning.parameters import Categorical, Parameter, resolve_scaling
from stoker.tuning.study import Study, Trial, find_best

MOST_VALUES = 200
"""Of a learning curve; more would not be seen."""
_TEMPLATE = Path(__file__).with_suffix(".html")


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchedDefinition:
    """What was searched in one training job definition."""

    study: Study
    metric: str
    """Name of the objective."""

    trials: Sequence[Trial]
    """In any state; their numbers are those of the whole search."""

    name: str = ""
    """Of the definition; a search with only one needs none."""


def render_page(
    definitions: Sequence[SearchedDefinition],
    *,
    name: str,
    state: str = "",
    jobs: Mapping[int, str] | None = None,
) -> str:
    """The whole page as HTML.

    Args:
        definitions: at least one.
        name: of the search.
        state: of the search, in words.
        jobs: the training job of each trial, by number.
    """
    known = jobs or {}
    trials = [
        _trial_to_json(each.study, trial) | {"definition": index, "job": known.get(trial.number)}
        for index, each in enumerate(definitions)
        for trial in each.trials
    ]
    facts = {
        "strategy": definitions[0].study.strategy.value,
        "state": state,
        "definitions": [_definition_to_json(each) for each in definitions],
        "trials": sorted(trials, key=lambda trial: trial["number"]),
    }
    return make_page(_TEMPLATE, title=name, facts=facts)


def _definition_to_json(definition: SearchedDefinition) -> dict[str, Any]:
    study, trials = definition.study, definition.trials
    best = find_best(study.goal, trials)
    return {
        "name": definition.name,
        "metric": definition.metric,
        "isMaximized": study.goal == "Maximize",
        "best": best.number if best else None,
        "parameters": [_parameter_to_json(parameter) for parameter in study.space.parameters],
        "importance": [
            {"name": one.name, "share": one.share, "low": one.low, "high": one.high}
            for one in estimate_importance(study, trials)
        ],
    }


def _parameter_to_json(parameter: Parameter) -> dict[str, Any]:
    if isinstance(parameter, Categorical):
        return {"name": parameter.name, "values": [_unquote(value) for value in parameter.values]}
    return {
        "name": parameter.name,
        "low": parameter.low,
        "high": parameter.high,
        "scaling": resolve_scaling(parameter).value,
    }


def _trial_to_json(study: Study, trial: Trial) -> dict[str, Any]:
    epochs = range(1, len(trial.curve) + 1)
    every = math.ceil(len(trial.curve) / MOST_VALUES) or 1
    kept = [e for e in epochs if e % every == 0 or e == len(trial.curve)]
    return {
        "number": trial.number,
        "state": trial.state.value,
        "values": {n: _unquote(v) for n, v in trial.parameters.items()},
        "places": [
            parameter.encode(trial.parameters.get(parameter.name, ""))
            for parameter in study.space.parameters
        ],
        "objective": _finite(trial.objective),
        "epochs": len(trial.curve),
        "curve": [[epoch, _finite(trial.curve[epoch - 1])] for epoch in kept],
    }


def _unquote(text: str) -> str:
    """Categories as people wrote them: SDK v2 puts JSON quotes around them."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
